package query

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func somePlaces() []Place {
	return []Place{
		{Partition: 0, State: PlaceAfter, After: []byte("cursor\x00")},
		{Partition: 1, State: PlaceBegin},
		{Partition: 2, State: PlaceDone},
	}
}

func parsed(t *testing.T, m *iqv1.ScanRequest) *Scan {
	t.Helper()
	s, err := ParseScan(m, jsonStore("keyvalue"))
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

func TestTokenGoesOnWhereItWasMade(t *testing.T) {
	m := &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "s"}, Limit: 7}
	token := parsed(t, m).Token(somePlaces())
	m.PageToken, m.Limit, m.Policy = token, 3, &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_ANY}
	next := parsed(t, m)
	for _, want := range somePlaces() {
		if got := next.Place(want.Partition); got.State != want.State || string(got.After) != string(want.After) {
			t.Errorf("place %v, want %v", got, want)
		}
	}
	if got := next.Token([]Place{{Partition: 0, State: PlaceDone}, {Partition: 1, State: PlaceDone}}); got != nil {
		t.Errorf("a token although nothing is left: %x", got)
	}
}

// TestTokenBelongsToItsRequestAlone changes each field of the request that must be as it was, one at a time.
func TestTokenBelongsToItsRequestAlone(t *testing.T) {
	base := func() *iqv1.ScanRequest { return &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "s"}} }
	keyRange := func(r *iqv1.KeyRange) func(m *iqv1.ScanRequest) {
		return func(m *iqv1.ScanRequest) { m.Selection.Keys = &iqv1.Selection_Range{Range: r} }
	}
	variants := map[string]func(m *iqv1.ScanRequest){
		"":             func(*iqv1.ScanRequest) {},
		"key":          func(m *iqv1.ScanRequest) { m.Selection.Keys = &iqv1.Selection_Key{Key: []byte("a")} },
		"empty key":    func(m *iqv1.ScanRequest) { m.Selection.Keys = &iqv1.Selection_Key{} },
		"prefix":       func(m *iqv1.ScanRequest) { m.Selection.Keys = &iqv1.Selection_Prefix{Prefix: []byte("a")} },
		"from":         keyRange(&iqv1.KeyRange{From: []byte("a")}),
		"from empty":   keyRange(&iqv1.KeyRange{From: []byte{}}),
		"to":           keyRange(&iqv1.KeyRange{To: []byte("a")}),
		"open from":    keyRange(&iqv1.KeyRange{From: []byte("a"), FromExclusive: true}),
		"open to":      keyRange(&iqv1.KeyRange{To: []byte("a"), ToExclusive: true}),
		"partition 1":  func(m *iqv1.ScanRequest) { m.Selection.Partitions = []int32{1} },
		"partitions":   func(m *iqv1.ScanRequest) { m.Selection.Partitions = []int32{0, 1} },
		"filter":       func(m *iqv1.ScanRequest) { m.Selection.Filter = "true" },
		"other filter": func(m *iqv1.ScanRequest) { m.Selection.Filter = "false" },
		"reverse":      func(m *iqv1.ScanRequest) { m.Reverse = true },
		"keys only":    func(m *iqv1.ScanRequest) { m.KeysOnly = true },
		"by partition": func(m *iqv1.ScanRequest) { m.Order = iqv1.ScanRequest_ORDER_PARTITION },
		"fields a b":   func(m *iqv1.ScanRequest) { m.Fields = []string{"a", "b"} },
		"fields ab":    func(m *iqv1.ScanRequest) { m.Fields = []string{"ab"} },
	}
	tokens := map[string][]byte{}
	for name, change := range variants {
		m := base()
		change(m)
		tokens[name] = parsed(t, m).Token([]Place{{Partition: 1, State: PlaceAfter, After: []byte("c")}})
	}
	for of, token := range tokens {
		for used, change := range variants {
			m := base()
			change(m)
			m.PageToken = token
			_, err := ParseScan(m, jsonStore("keyvalue"))
			if (err == nil) != (of == used) || err != nil && !strings.HasPrefix(err.Error(), "page_token ") {
				t.Errorf("the token of %q used with %q: %v", of, used, err)
			}
		}
	}
	same := base()
	same.Order, same.Selection.Application, same.PageToken = iqv1.ScanRequest_ORDER_KEY, "app", tokens[""]
	if _, err := ParseScan(same, jsonStore("keyvalue")); err != nil {
		t.Errorf("the same request in other words: %v", err)
	}
}

func TestTokenIsLostWithItsLog(t *testing.T) {
	m := &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "s"}}
	m.PageToken = parsed(t, m).Token(somePlaces())
	for log, lost := range map[string]bool{"log-1": false, "": false, "log-2": true} {
		info := jsonStore("keyvalue")
		info.ChangelogID = log
		if _, err := ParseScan(m, info); errors.Is(err, iqerr.ErrPageLost) != lost || !lost && err != nil {
			t.Errorf("changelog %q: %v", log, err)
		}
	}
	for _, partitions := range []int32{1, 6} {
		info := jsonStore("keyvalue")
		info.Partitions = partitions
		if _, err := ParseScan(m, info); !errors.Is(err, iqerr.ErrPageLost) {
			t.Errorf("%d partitions: %v, want PAGE_LOST", partitions, err)
		}
	}
}

func TestNodeRequestGoesOnBehindTheCursor(t *testing.T) {
	m := &iqv1.ScanRequest{
		Selection: &iqv1.Selection{Store: "s", Partitions: []int32{2, 1}, Filter: "true"}, Reverse: true, Limit: 9, Fields: []string{"a"},
		PageToken: nil, Order: iqv1.ScanRequest_ORDER_KEY,
	}
	before := proto.CloneOf(m)
	s := parsed(t, m)
	for _, place := range []Place{{Partition: 1}, {Partition: 2, State: PlaceAfter, After: []byte("cursor")}} {
		node := parsed(t, s.ForPartition(m, &iqv1.ReadPolicy{}, place, 4))
		if got := node.Place(place.Partition); got.State != place.State || string(got.After) != string(place.After) {
			t.Errorf("the node begins at %v, want %v", got, place)
		}
		if !node.ByPartition || !node.Reverse || node.Limit != 4 || !slices.Equal(node.Partitions, []int32{place.Partition}) || node.Filter == nil || node.Fields == nil {
			t.Errorf("the node is asked %+v", node)
		}
	}
	if !proto.Equal(m, before) {
		t.Error("the request was changed")
	}
}

// FuzzTokenIsRefusedOrRight gives any bytes as a token. They are refused as INVALID or PAGE_LOST, or they give places that
// make the same token again.
func FuzzTokenIsRefusedOrRight(f *testing.F) {
	m := &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "s"}}
	s, err := ParseScan(m, jsonStore("keyvalue"))
	if err != nil {
		f.Fatal(err)
	}
	valid := s.Token(somePlaces())
	f.Add(valid[:len(valid)-checksumBytes])
	f.Add([]byte{})
	for i := range len(valid) - checksumBytes {
		damaged := slices.Clone(valid[:len(valid)-checksumBytes])
		damaged[i] ^= 0x81
		f.Add(damaged)
		f.Add(valid[:i])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		token := sealed(slices.Clone(body)) // with a right checksum, which a fuzzer does not find
		places, err := s.bind.decode(token, &s.Selection)
		if err != nil {
			if !errors.Is(err, iqerr.ErrInvalid) && !errors.Is(err, iqerr.ErrPageLost) {
				t.Fatalf("%x: %v", token, err)
			}
			return
		}
		for _, p := range places {
			if !s.Includes(p.Partition) {
				t.Fatalf("%x: place %v", token, p)
			}
		}
		again, err := s.bind.decode(s.bind.encode(places), &s.Selection)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(places) {
			t.Fatalf("%x: %v became %v, %v", token, places, again, err)
		}
		if _, err := s.bind.decode(body, &s.Selection); err == nil {
			t.Fatalf("%x without its checksum is taken", body)
		}
	})
}
