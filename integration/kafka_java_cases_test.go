//go:build kafka && java

package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/integration/javaapp"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// countYAMLFollowed follows one store, whose only partition is the node's only copy.
const countYAMLFollowed = `
application: APP
replicas: 1
stores:
  - {store: counts, key_serde: string, value_serde: int64}
`

// What can happen to a changelog happens to one that Kafka Streams has written: markers at its end (S05), an open transaction
// below committed records (S06), aborted writes (S07), a start that has moved past a checkpoint (S08), and past everything (S09).
func TestS05ToS09HoldForAChangelogOfKafkaStreams(t *testing.T) {
	t.Parallel()
	a := newFollowedApp(t, countYAMLFollowed, 1)
	j := a.java(javaapp.Options{Stores: "shared"})
	j.run()
	var recs []*kgo.Record
	for i := range 30 {
		recs = append(recs, &kgo.Record{Topic: a.topic("in"), Key: fmt.Appendf(nil, "k%d", i%10), Value: []byte("x"), Timestamp: time.UnixMilli(javaT0)})
	}
	if err := a.kafka.ProduceSync(a.ctx, recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	a.caughtUp("in")
	j.stop()
	const topic = "counts-changelog"
	n := a.start("a")
	n.is(iqv1.Role_ROLE_STANDBY)
	end := a.endOf(topic)
	st := n.at(end, 0)
	if st.GetTimeLag() == nil || st.GetTimeLag().AsDuration() > time.Second {
		t.Errorf("S05: time lag %v", st.GetTimeLag())
	}
	counts := func(n *server, what string, want map[string]int64) {
		t.Helper()
		for key, v := range want {
			got, err := a.number(n.Client, "counts", key, client.MaxOffsetLag(0), client.Wait(5*time.Second))
			if err != nil || got != v {
				t.Errorf("%s: %s is %d, %v; want %d", what, key, got, err, v)
			}
		}
	}
	counts(n, "S05", map[string]int64{"k0": 3, "k9": 3})

	put := func(cl *kgo.Client, key string, v uint64) {
		t.Helper()
		rec := &kgo.Record{Topic: a.topic(topic), Key: []byte(key), Value: binary.BigEndian.AppendUint64(nil, v)}
		if err := cl.ProduceSync(a.ctx, rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	x := a.client(kgo.TransactionalID(a.topic("X")))
	if err := x.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	put(x, "k0", 99)
	put(a.kafka, "k1", 7) // committed, above an open transaction
	n.at(end, 2)
	if _, err := a.number(n.Client, "counts", "k1", client.MaxOffsetLag(0)); !errors.Is(err, iqerr.ErrStale) {
		t.Errorf("S06: a read with max lag 0 gave %v", err)
	}
	if got, err := a.number(n.Client, "counts", "k1", client.MaxOffsetLag(5)); err != nil || got != 3 {
		t.Errorf("S06: a read with max lag 5 gave %d, %v", got, err)
	}
	if err := x.EndTransaction(a.ctx, kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	end += 3
	n.at(end, 0)
	counts(n, "S06 and S07", map[string]int64{"k0": 3, "k1": 7})

	n.stop()
	put(a.kafka, "k1", 8)
	put(a.kafka, "k2", 9)
	a.deleteRecordsOf(topic, end+1)
	n.run()
	n.is(iqv1.Role_ROLE_STANDBY)
	n.at(end+2, 0)
	counts(n, "S08", map[string]int64{"k0": 0, "k1": 0, "k2": 9})
	if log, err := n.Log(); err != nil || !strings.Contains(log, fmt.Sprintf("checkpoint %d < log start %d", end, end+1)) {
		t.Errorf("S08: the log does not say why the store was rebuilt, %v", err)
	}

	a.deleteRecordsOf(topic, end+2)
	n.stop()
	for _, n := range []*server{a.start("fresh"), n} {
		if !n.Alive() {
			n.run()
		}
		n.is(iqv1.Role_ROLE_STANDBY)
		n.at(end+2, 0)
		counts(n, "S09", map[string]int64{"k0": 0})
		n.stop()
	}
}

// endOf is the end of the only partition of a topic.
func (a *app) endOf(topic string) int64 {
	a.t.Helper()
	ends, err := a.admin.ListEndOffsets(a.ctx, a.topic(topic))
	if err != nil {
		a.t.Fatal(err)
	}
	o, _ := ends.Lookup(a.topic(topic), 0)
	return o.Offset
}
