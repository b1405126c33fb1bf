package query

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// A page token is, in order:
//
//	version      1 byte
//	request      16 bytes: hash of all of the request that must be as it was
//	partitions   uvarint: how many the store had
//	changelog    uvarint length, bytes: the changelog's topic id, empty when not known
//	places       uvarint count, each: uvarint partition, 1 byte state, and in state after: uvarint length, cursor
//	checksum     4 bytes CRC-32C of all before, so that what is damaged is not taken for another request's
//
// It is self-contained: any router and any node that serves the store can go on with it.
const (
	tokenVersion  = 1
	requestBytes  = 16
	checksumBytes = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// binding is what a page token is bound to.
type binding struct {
	request    [requestBytes]byte
	store      string
	partitions int32
	changelog  string
}

func bindingOf(m *iqv1.ScanRequest, s *Scan) binding {
	return binding{request: requestHash(m, s), store: s.Store.Name, partitions: s.Store.Partitions, changelog: s.Store.ChangelogID}
}

// requestHash covers everything of a request but policy, limit and page token, each part with its length, so that no two
// requests are written alike.
func requestHash(m *iqv1.ScanRequest, s *Scan) [requestBytes]byte {
	var b []byte
	put := func(p []byte) {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	optional := func(p []byte) {
		if p == nil {
			b = append(b, 0)
			return
		}
		b = append(b, 1)
		put(p)
	}
	flag := func(f bool) {
		if f {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	put([]byte(s.Store.Name))
	optional(s.Keys.From)
	optional(s.Keys.To)
	flag(s.Keys.FromOpen)
	flag(s.Keys.ToOpen)
	put(s.Keys.Prefix)
	flag(s.HasTimes)
	b = binary.BigEndian.AppendUint64(b, uint64(s.Times.From))
	b = binary.BigEndian.AppendUint64(b, uint64(s.Times.To))
	flag(s.AsOf != nil)
	if s.AsOf != nil {
		b = binary.BigEndian.AppendUint64(b, uint64(*s.AsOf))
	}
	b = binary.AppendUvarint(b, uint64(len(s.Partitions)))
	for _, p := range s.Partitions {
		b = binary.AppendUvarint(b, uint64(p))
	}
	put([]byte(m.GetSelection().GetFilter()))
	flag(s.Reverse)
	flag(s.KeysOnly)
	flag(s.ByPartition)
	for _, f := range m.GetFields() {
		put([]byte(f))
	}
	sum := sha256.Sum256(b)
	return [requestBytes]byte(sum[:requestBytes])
}

func (b *binding) encode(places []Place) []byte {
	size := 2*binary.MaxVarintLen64 + requestBytes + len(b.changelog) + checksumBytes + 8
	for i := range places {
		size += 2*binary.MaxVarintLen32 + len(places[i].After)
	}
	t := make([]byte, 0, size)
	t = append(t, tokenVersion)
	t = append(t, b.request[:]...)
	t = binary.AppendUvarint(t, uint64(b.partitions))
	t = binary.AppendUvarint(t, uint64(len(b.changelog)))
	t = append(t, b.changelog...)
	t = binary.AppendUvarint(t, uint64(len(places)))
	for i := range places {
		p := &places[i]
		t = binary.AppendUvarint(t, uint64(p.Partition))
		t = append(t, byte(p.State))
		if p.State == PlaceAfter {
			t = binary.AppendUvarint(t, uint64(len(p.After)))
			t = append(t, p.After...)
		}
	}
	return sealed(t)
}

// sealed adds the checksum.
func sealed(body []byte) []byte {
	return binary.BigEndian.AppendUint32(body, crc32.Checksum(body, castagnoli))
}

// decode reads the token of a request bound as b is. The error is an *iqerr.InvalidError, or an *iqerr.PageLostError when
// the request is the same and the log is not.
func (b *binding) decode(token []byte, s *Selection) ([]Place, error) {
	bad := func(problem string) error { return iqerr.Invalid("page_token", token, problem) }
	if len(token) < 1+requestBytes+checksumBytes {
		return nil, bad("is not a page token")
	}
	body, sum := token[:len(token)-checksumBytes], token[len(token)-checksumBytes:]
	switch {
	case crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(sum):
		return nil, bad("is not a page token, or is damaged")
	case body[0] != tokenVersion:
		return nil, bad("is of a version that this server does not know")
	case !bytes.Equal(body[1:1+requestBytes], b.request[:]):
		return nil, bad("belongs to another request: all but policy and limit must be as they were")
	}
	r := reader{rest: body[1+requestBytes:]}
	partitions, changelog, count := r.uvarint(), string(r.bytes()), r.uvarint()
	if r.failed {
		return nil, bad("is not a page token")
	}
	if partitions != uint64(b.partitions) {
		return nil, &iqerr.PageLostError{Store: b.store, Partition: iqerr.NoPartition, Problem: "the store's partitions have changed"}
	}
	if changelog != b.changelog && changelog != "" && b.changelog != "" {
		return nil, &iqerr.PageLostError{Store: b.store, Partition: iqerr.NoPartition, Problem: "the store's changelog was made anew"}
	}
	if count > uint64(b.partitions) {
		return nil, bad("has more places than the store has partitions")
	}
	places := make([]Place, 0, count)
	for range count {
		n, state := r.uvarint(), r.byte()
		if n >= uint64(b.partitions) || state > byte(PlaceDone) {
			return nil, bad("has a place that there is not")
		}
		p := Place{Partition: int32(n), State: PlaceState(state)}
		if p.State == PlaceAfter {
			p.After = slices.Clone(r.bytes())
		}
		if last := len(places) - 1; !s.Includes(p.Partition) || last >= 0 && places[last].Partition >= p.Partition {
			return nil, bad("has a place that there is not")
		}
		places = append(places, p)
	}
	if r.failed || len(r.rest) > 0 {
		return nil, bad("is not a page token")
	}
	return places, nil
}

// reader takes a token apart. After a failure it gives nothing more.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.rest, r.failed = nil, true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.failed = true
		return 0
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.rest, r.failed = nil, true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}
