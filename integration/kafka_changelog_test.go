//go:build kafka

package integration

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// changelog is the topic of the store "table", which the tests of this file write themselves.
const changelog = "table-changelog"

// tableApp is an application with the table, one partition, and the table's changelog.
func tableApp(t *testing.T, configs map[string]string, flags ...string) *app {
	t.Helper()
	a := newApp(t, tableYAML, map[string]int32{"in": 1}, flags...)
	a.createChangelog(configs)
	return a
}

func (a *app) createChangelog(configs map[string]string) {
	a.t.Helper()
	all := map[string]string{"cleanup.policy": "compact"}
	maps.Copy(all, configs)
	a.createTopic(changelog, 1, all)
}

// txn writes key=value pairs to the changelog in one transaction.
func (a *app) txn(w *kgo.Client, how kgo.TransactionEndTry, kvs ...string) {
	a.t.Helper()
	if err := w.BeginTransaction(); err != nil {
		a.t.Fatal(err)
	}
	a.write(w, changelog, kvs...)
	if err := w.EndTransaction(a.ctx, how); err != nil {
		a.t.Fatal(err)
	}
}

// deleteRecords moves the changelog's start. The broker does that to a topic only that may lose records.
func (a *app) deleteRecords(to int64) {
	a.t.Helper()
	a.deleteRecordsOf(changelog, to)
}

// deleteRecordsOf moves the start of a compacted topic of one partition.
func (a *app) deleteRecordsOf(topic string, to int64) {
	a.t.Helper()
	policy := func(value string) {
		got, err := a.admin.AlterTopicConfigs(a.ctx, []kadm.AlterConfig{{Name: "cleanup.policy", Value: &value}}, a.topic(topic))
		if err == nil {
			_, err = got.On(a.topic(topic), func(r *kadm.AlterConfigsResponse) error { return r.Err })
		}
		if err != nil {
			a.t.Fatal(err)
		}
	}
	policy("delete")
	defer policy("compact")
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: a.topic(topic), Partition: 0, At: to})
	a.eventually(10*time.Second, "the broker deletes records", func() error { // once it has heard of the policy
		got, err := a.admin.DeleteRecords(a.ctx, offsets)
		if err == nil {
			err = got.Error()
		}
		return err
	})
}

// An idle replica that has read everything is at lag 0, although the log ends with a marker of the broker's.
func TestS05KafkaCommitMarkerLeavesNoLag(t *testing.T) {
	t.Parallel()
	a := tableApp(t, nil)
	_, b := a.pair()
	w := a.client(kgo.TransactionalID(a.topic("writer")))
	a.txn(w, kgo.TryCommit, "k0", "v", "k1", "v", "k2", "v")
	st := b.at(4, 0)
	if st.GetTimeLag() == nil || st.GetTimeLag().AsDuration() > time.Second {
		t.Errorf("after a commit the time lag is %v", st.GetTimeLag())
	}
	b.expect(client.MaxOffsetLag(0), "k0", "v", "k2", "v")
	a.txn(w, kgo.TryAbort, "k3", "v", "k4", "v")
	b.at(7, 0)
	b.expect(client.MaxOffsetLag(0), "k0", "v", "k3", "absent")
}

// A replica is not caught up while a transaction below the end is open, although everything up to the last stable offset
// is applied: what is above may be committed.
func TestS06KafkaOpenTransactionIsWaitedFor(t *testing.T) {
	t.Parallel()
	a := tableApp(t, nil)
	x := a.client(kgo.TransactionalID(a.topic("X")))
	a.txn(x, kgo.TryCommit, "k0", "v", "k1", "v", "k2", "v")
	a.txn(x, kgo.TryAbort, "k0", "aborted", "k9", "aborted")
	if err := x.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	a.write(x, changelog, "k1", "OPEN")
	a.write(a.kafka, changelog, "k2", "plain-after-open")

	n := a.start("a")
	if st := n.at(7, 2); st.GetState() != iqv1.ReplicaState_REPLICA_STATE_RESTORING {
		t.Errorf("it claims to have caught up: %v", st)
	}
	if _, _, err := a.read(n.Client, "k2", client.MaxOffsetLag(0)); !errors.Is(err, iqerr.ErrStale) {
		t.Errorf("a read with max lag 0 gave %v", err)
	}
	if _, _, err := a.read(n.Client, "k2", client.Strong()); !errors.Is(err, iqerr.ErrNoActive) {
		t.Errorf("a strong read gave %v", err)
	}
	got, res, err := a.read(n.Client, "k2", client.MaxOffsetLag(5))
	if err != nil || got != "v" || res.OffsetLag != 2 {
		t.Errorf("a read with max lag 5 gave %q with lag %d, %v", got, res.OffsetLag, err)
	}

	again := a.client(kgo.TransactionalID(a.topic("X"))) // its initialisation aborts what is open
	if _, _, err := again.ProducerID(a.ctx); err != nil {
		t.Fatal(err)
	}
	n.is(iqv1.Role_ROLE_ACTIVE)
	n.expect(client.Strong(), "k0", "v", "k1", "v", "k2", "plain-after-open", "k9", "absent")
}

// An aborted write never shows and hides no committed one: live, after the broker has compacted the log, and after a
// rebuild from nothing out of the compacted log.
func TestS07KafkaAbortedWritesNeverShow(t *testing.T) {
	t.Parallel()
	a := tableApp(t, map[string]string{
		"segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "0", "max.compaction.lag.ms": "200",
	})
	_, b := a.pair()
	w := a.client(kgo.TransactionalID(a.topic("writer")))
	for _, s := range []struct {
		key, value string
		how        kgo.TransactionEndTry
	}{
		{"tx1", "1", kgo.TryCommit},
		{"tx2", "2", kgo.TryAbort},
		{"tx3", "3", kgo.TryCommit},
		{"acct", "committed-99", kgo.TryCommit},
		{"acct", "committed-100", kgo.TryCommit},
		{"acct", "aborted-999", kgo.TryAbort},
		{"acct", "null", kgo.TryAbort},
	} {
		a.txn(w, s.how, s.key, s.value)
	}
	want := []string{"tx1", "1", "tx2", "absent", "tx3", "3", "acct", "committed-100"}
	b.at(14, 0)
	b.expect(client.MaxOffsetLag(0), want...)

	fillers := 0
	a.eventually(40*time.Second, "the broker has compacted the changelog", func() error {
		a.pause(200 * time.Millisecond)
		a.write(a.kafka, changelog, "filler", fmt.Sprint(fillers)) // a segment that is not full rolls when it is written to
		fillers++
		var values []string
		for _, r := range a.readAll(changelog, kgo.FetchIsolationLevel(kgo.ReadUncommitted())) {
			if string(r.Key) == "acct" {
				values = append(values, string(r.Value))
			}
		}
		if !slices.Equal(values, []string{"committed-100"}) {
			return fmt.Errorf("it has these values of acct: %q", values)
		}
		return nil
	})
	t.Logf("compacted after %d more records", fillers)
	b.at(14+int64(fillers), 0)
	b.expect(client.MaxOffsetLag(0), want...)

	b.Kill()
	c := a.start("c") // gets the copy that b had, or becomes a second one, out of the compacted log
	c.is(iqv1.Role_ROLE_STANDBY)
	c.at(14+int64(fillers), 0)
	c.expect(client.MaxOffsetLag(0), want...)
}

// A store whose checkpoint lies below the log's start is dropped and rebuilt: the tombstones in between are gone.
func TestS08KafkaTruncatedChangelogRebuilds(t *testing.T) {
	t.Parallel()
	a := tableApp(t, nil)
	a.write(a.kafka, changelog, "k0", "v", "k1", "v", "k2", "v")
	n := a.start("a")
	n.is(iqv1.Role_ROLE_ACTIVE)
	n.expect(client.Strong(), "k0", "v", "k2", "v")
	n.stop()
	for i := 3; i < 10; i++ {
		a.write(a.kafka, changelog, fmt.Sprintf("k%d", i), "v")
	}
	a.deleteRecords(6)
	fresh := a.start("fresh") // first, since it is to have it from the log alone
	for _, n := range []*server{fresh, n} {
		if !n.Alive() {
			n.run()
		}
		n.is(iqv1.Role_ROLE_ACTIVE)
		n.at(10, 0)
		for i := range 10 {
			want := "v"
			if i < 6 {
				want = "absent"
			}
			n.expect(client.Strong(), fmt.Sprintf("k%d", i), want)
		}
		n.stop()
	}
	log, err := n.Log()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log, "checkpoint 3 < log start 6") {
		t.Error("the log does not say why the store was rebuilt")
	}
}

// The same under a standby that was stopped in the middle of following.
func TestS08KafkaTruncatedUnderAFollower(t *testing.T) {
	t.Parallel()
	a := tableApp(t, nil, "--session-timeout", "30s", "--rebalance-timeout", "10s") // nobody is to notice the pause
	_, b := a.pair()
	a.write(a.kafka, changelog, "k0", "v", "k1", "v")
	b.at(2, 0)
	if err := b.Pause(); err != nil {
		t.Fatal(err)
	}
	a.write(a.kafka, changelog, "k2", "v", "k3", "v", "k4", "v")
	a.deleteRecords(4)
	if err := b.Continue(); err != nil {
		t.Fatal(err)
	}
	b.at(5, 0)
	if got, _, err := a.read(b.Client, "k4", client.MaxOffsetLag(0)); err != nil || got != "v" {
		t.Errorf("k4 is %q, %v", got, err)
	}
}

// A changelog that is made anew under the same name has nothing to do with what a store holds.
func TestS08KafkaRecreatedChangelogRebuilds(t *testing.T) {
	t.Parallel()
	a := tableApp(t, nil)
	a.write(a.kafka, changelog, "old", "v", "k1", "v")
	n := a.start("a")
	n.is(iqv1.Role_ROLE_ACTIVE)
	n.stop()
	if _, err := a.admin.DeleteTopic(a.ctx, a.topic(changelog)); err != nil {
		t.Fatal(err)
	}
	a.createChangelog(nil)
	fresh := a.client() // the other one knows the old topic's id
	a.write(fresh, changelog, "new", "v", "k2", "v", "k3", "v")
	n.run()
	n.is(iqv1.Role_ROLE_ACTIVE)
	n.expect(client.Strong(), "old", "absent", "k1", "absent", "new", "v", "k3", "v")
}

// An empty changelog may begin anywhere: its replica is caught up at once, at its end.
func TestS09KafkaEmptyChangelogWithNonZeroEnd(t *testing.T) {
	t.Parallel()
	a := tableApp(t, nil)
	for i := range 10 {
		a.write(a.kafka, changelog, fmt.Sprintf("k%d", i), "v")
	}
	n := a.start("a")
	n.is(iqv1.Role_ROLE_ACTIVE)
	n.stop()
	a.deleteRecords(10)
	n.run() // with a checkpoint of 10
	n.is(iqv1.Role_ROLE_ACTIVE)
	n.at(10, 0)
	n.stop()
	fresh := a.start("fresh") // with none
	fresh.is(iqv1.Role_ROLE_ACTIVE)
	fresh.at(10, 0)
	fresh.expect(client.Strong(), "k0", "absent")
}
