package router

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
)

func (w *world) multiGet(policy *iqv1.ReadPolicy, keys ...string) (*iqv1.MultiGetResponse, error) {
	m := &iqv1.MultiGetRequest{Store: "s", Policy: policy}
	for _, k := range keys {
		m.Keys = append(m.Keys, []byte(k))
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	return w.client.MultiGet(ctx, m)
}

// answers is a reply in short: value@node, - for a key that is not there, and ! for a key that could not be read.
func answers(resp *iqv1.MultiGetResponse) string {
	var all []string
	for _, r := range resp.GetResults() {
		text := "-"
		switch {
		case r.GetError() != nil:
			text = "!" + iqerr.Name(r.GetError().GetReason())
		case r.GetFound():
			text = string(r.GetValue())
		}
		if r.Read != nil {
			text += "@" + resp.GetPartitions()[r.GetRead()].GetServed().GetNode()
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func TestMultiGetAsksEachNodeOnceAndAnswersInTheOrderOfTheKeys(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		w.holding(query.KeyValue, 3, keyRows(numbered("k", 12)...)...) // k0 to k11 are in 2 2 0 1 1 0 1 1 2 2 1 0
		a, b := w.join("a", of(active(9), 0, 2)...), w.join("b", of(active(9), 1)...)
		resp, err := w.multiGet(nil, "k3", "k2", "k0", "gone", "k2", "k10", "k11")
		want := "k3@b k2@a k0@a -@a k2@a k10@b k11@a" // gone is in partition 0
		if p, _ := partitioner.Lookup(partitioner.Murmur2(), []byte("gone"), 3); p[0] == 1 {
			want = strings.Replace(want, "-@a", "-@b", 1)
		}
		if err != nil || answers(resp) != want {
			t.Errorf("%s, %v\nwant %s", answers(resp), err, want)
		}
		if a.count() != 1 || b.count() != 1 {
			t.Errorf("a was asked %d times, b %d", a.count(), b.count())
		}
		if resp, err := w.multiGet(nil); err != nil || len(resp.GetResults()) != 0 {
			t.Errorf("no keys: %v, %v", resp, err)
		}
		a.kill()
		b.kill()
	})
}

func TestMultiGetAsksTheNextReplicaForWhatFailedAndNoMore(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		w.holding(query.KeyValue, 3, keyRows(numbered("k", 12)...)...)
		a, b := w.join("a", of(active(9), 0, 2)...), w.join("b", of(active(9), 1)...)
		c := w.join("c", of(standby(9, 9), 0, 1, 2)...)
		b.streams.multi = func(key []byte) *iqv1.KeyResult {
			if string(key) == "k4" {
				return &iqv1.KeyResult{Error: iqerr.ToKeyError(&iqerr.CorruptError{Node: "b", Store: "s", Partition: 1})}
			}
			return nil
		}
		resp, err := w.multiGet(anyPolicy(), "k0", "k3", "k4", "k2")
		if err != nil || answers(resp) != "k0@a k3@b k4@c k2@a" {
			t.Errorf("%s, %v", answers(resp), err)
		}
		if len(c.streams.gets) != 1 || len(c.streams.gets[0].GetKeys()) != 1 {
			t.Errorf("c was asked %v", c.streams.gets)
		}
		// Under the default policy none but the active may answer: the key fails alone, with what its node said.
		resp, err = w.multiGet(nil, "k0", "k4", "k3")
		if err != nil || answers(resp) != "k0@a !CORRUPT k3@b" {
			t.Errorf("%s, %v", answers(resp), err)
		}
		if e := resp.GetResults()[1].GetError(); codes.Code(e.GetCode()) != codes.DataLoss || len(e.GetRefusals().GetAttempts()) != 1 ||
			e.GetRefusals().GetPartition() != 1 {
			t.Errorf("%v", e)
		}
		b.kill()
		resp, err = w.multiGet(nil, "k0", "k4", "k3")
		if err != nil || answers(resp) != "k0@a !NO_ACTIVE !NO_ACTIVE" {
			t.Errorf("%s, %v", answers(resp), err)
		}
		resp, err = w.multiGet(anyPolicy(), "k0", "k4", "k3")
		if err != nil || answers(resp) != "k0@a k4@c k3@c" {
			t.Errorf("%s, %v", answers(resp), err)
		}
		a.kill()
		resp, err = w.multiGet(nil, "k0")
		if err != nil || answers(resp) != "!NO_ACTIVE" {
			t.Errorf("%s, %v", answers(resp), err)
		}
		c.kill()
	})
}

func TestMultiGetWaitsForThoseKeysThatMayPass(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		w.holding(query.KeyValue, 3, keyRows(numbered("k", 12)...)...)
		a := w.join("a", of(active(9), 0, 1, 2)...)
		a.change(func(m *iqv1.HeartbeatRequest) { m.Replicas[1].State = iqv1.ReplicaState_REPLICA_STATE_RESTORING })
		advance(2 * heartbeatEvery)
		replies := make(chan string)
		policy := get(iqv1.ReadPolicy_MODE_ACTIVE).GetPolicy()
		policy.Wait = durationpb.New(5 * time.Second)
		go func() {
			resp, err := w.multiGet(policy, "k3", "k0")
			replies <- fmt.Sprint(answers(resp), err)
		}()
		advance(time.Second)
		a.change(func(m *iqv1.HeartbeatRequest) { m.Replicas[1].State = iqv1.ReplicaState_REPLICA_STATE_RUNNING })
		if got := <-replies; got != "k3@a k0@a<nil>" {
			t.Error(got)
		}
		if got := len(a.streams.gets); got != 2 {
			t.Errorf("a was asked %d times", got)
		}
		a.kill()
	})
}

// multicast puts pair- keys into partitions 0 and 2 and drops drop- keys.
func multicast(t *testing.T) *partitioner.Registry {
	t.Helper()
	known, err := partitioner.NewRegistry(partitioner.Custom("multicast", partitioner.Murmur2(), func(_ string, key, _ []byte, _ int32) partitioner.Choice {
		switch {
		case strings.HasPrefix(string(key), "pair-"):
			return partitioner.Partitions(2, 0)
		case strings.HasPrefix(string(key), "drop-"):
			return partitioner.Drop()
		}
		return partitioner.Default()
	}))
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// TestS28ScanSendsAMulticastKeyOfEachOfItsPartitions scans a key that is in partitions 0 and 2, and one that is in none.
func TestS28ScanSendsAMulticastKeyOfEachOfItsPartitions(t *testing.T) {
	inBubble(t, Config{Partitioners: multicast(t)}, func(w *world) {
		w.holding(query.KeyValue, 3, &iqv1.Row{Key: []byte("pair-1")}, &iqv1.Row{Key: []byte("pair-1"), Partition: 2}, &iqv1.Row{Key: []byte("k"), Partition: 1})
		w.info.Partitioner = "multicast"
		a := w.join("a", of(active(9), 0, 1, 2)...)
		for key, want := range map[string]string{"pair-1": "pair-1/0 pair-1/2", "drop-1": "", "*": "k/1 pair-1/0 pair-1/2"} {
			m := &iqv1.ScanRequest{Selection: &iqv1.Selection{}}
			if key != "*" {
				m.Selection.Keys = &iqv1.Selection_Key{Key: []byte(key)}
			}
			s := w.scan(m)
			var got []string
			for _, r := range s.rows {
				got = append(got, fmt.Sprintf("%s/%d", r.GetKey(), r.GetPartition()))
			}
			if strings.Join(got, " ") != want || s.err != nil {
				t.Errorf("%s: %q, %v; want %q", key, got, s.err, want)
			}
		}
		a.kill()
	})
}

// TestMultiGetLooksForAMulticastKeyInAllOfItsPartitions has one that is in the second partition that is asked, and one
// that is nowhere.
func TestMultiGetLooksForAMulticastKeyInAllOfItsPartitions(t *testing.T) {
	known := multicast(t)
	inBubble(t, Config{Partitioners: known}, func(w *world) {
		w.holding(query.KeyValue, 3)
		w.info.Partitioner = "multicast"
		a, b := w.join("a", of(active(9), 0, 1)...), w.join("b", of(active(9), 2)...)
		a.streams.multi = func([]byte) *iqv1.KeyResult { return &iqv1.KeyResult{} }
		b.streams.multi = func(key []byte) *iqv1.KeyResult {
			if string(key) == "pair-1" {
				return &iqv1.KeyResult{Found: true, Value: []byte("of b")}
			}
			return &iqv1.KeyResult{}
		}
		resp, err := w.multiGet(nil, "pair-1", "pair-2", "drop-1", "pair-1")
		if err != nil || answers(resp) != "of b - - of b" {
			t.Errorf("%s, %v", answers(resp), err)
		}
		b.kill()
		// Nobody can say any more that pair-1 is nowhere.
		resp, err = w.multiGet(nil, "pair-1", "drop-1")
		if err != nil || answers(resp) != "!NO_ACTIVE -" {
			t.Errorf("%s, %v", answers(resp), err)
		}
		a.answers(func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) { return &iqv1.GetResponse{}, nil })
		// A Get of it panicked here: one partition had said no, and no replica of the other could be asked.
		if _, err := w.client.Get(w.t.Context(), &iqv1.GetRequest{Store: "s", Key: []byte("pair-1")}); !errors.Is(iqerr.FromStatus(err), iqerr.ErrNoActive) {
			t.Errorf("get: %v", err)
		}
		a.kill()
	})
}

func TestMultiGetRefusesWhatIsTooMuch(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		w.holding(query.KeyValue, 1)
		a := w.join("a", of(active(9), 0)...)
		value := make([]byte, 6<<20)
		a.streams.multi = func([]byte) *iqv1.KeyResult { return &iqv1.KeyResult{Found: true, Value: value} }
		if _, err := w.multiGet(nil, make([]string, query.MaxKeys+1)...); !errors.Is(iqerr.FromStatus(err), iqerr.ErrInvalid) || !strings.Contains(err.Error(), "10001 keys") {
			t.Errorf("too many keys: %v", err)
		}
		resp, err := w.multiGet(nil, "a", "b", "c")
		if err != nil {
			t.Fatal(err)
		}
		third := resp.GetResults()[2]
		if !resp.GetResults()[1].GetFound() || third.GetFound() || !query.IsReplyFull(third.GetError()) {
			t.Errorf("the third value: %v", third.GetError())
		}
		a.kill()
	})
}

func TestCountSumsThePartitionsAndNamesTheOneThatFails(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		w.holding(query.KeyValue, 3, keyRows(numbered("key-", 500)...)...)
		a, b := w.join("a", of(active(9), 0, 2)...), w.join("b", of(active(9), 1)...)
		c := w.join("c", of(standby(9, 9), 1)...)
		count := func(m *iqv1.CountRequest) (*iqv1.CountResponse, error) {
			if m.GetSelection() == nil {
				m.Selection = &iqv1.Selection{}
			}
			m.Selection.Store = "s"
			return w.client.Count(w.t.Context(), m)
		}
		resp, err := count(&iqv1.CountRequest{})
		if err != nil || resp.GetCount() != 500 || resp.GetApproximate() || len(resp.GetReads()) != 3 {
			t.Errorf("%v, %v", resp, err)
		}
		resp, err = count(&iqv1.CountRequest{Selection: &iqv1.Selection{Partitions: []int32{1}}})
		if err != nil || resp.GetCount() != 171 {
			t.Errorf("%v, %v", resp, err)
		}
		b.streams.count = func(*iqv1.CountRequest) (*iqv1.CountResponse, error) {
			return nil, iqerr.Status(&iqerr.ClosingError{Node: "b"})
		}
		if resp, err = count(&iqv1.CountRequest{Policy: anyPolicy()}); err != nil || resp.GetCount() != 500 {
			t.Errorf("with a standby: %v, %v", resp, err)
		}
		if _, err = count(&iqv1.CountRequest{}); !errors.Is(iqerr.FromStatus(err), iqerr.ErrClosing) || !strings.Contains(err.Error(), "s/1: ") {
			t.Errorf("the active alone: %v", err)
		}
		a.kill()
		b.kill()
		c.kill()
	})
}
