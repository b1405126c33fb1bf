//go:build kafka

package integration

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// randomText is text that does not compress.
func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return string(b)
}

// committed is the group's committed offset of partition 0 of the topic "in", -1 when there is none.
func (a *app) committed() int64 {
	a.t.Helper()
	got, err := a.admin.FetchOffsets(a.ctx, a.name)
	if err != nil {
		a.t.Fatal(err)
	}
	if o, ok := got.Lookup(a.topic("in"), 0); ok {
		return o.At
	}
	return -1
}

// A changelog record that the broker does not take aborts the whole transaction: nothing of it shows, no offset moves, and
// the task rests with an error while reads of what was committed go on. The largest that it does take is taken.
func TestS11KafkaOversizedRecordAborts(t *testing.T) {
	t.Parallel()
	for _, size := range []int{930, 5000} {
		t.Run(fmt.Sprintf("size=%d", size), func(t *testing.T) {
			a := tableApp(t, map[string]string{"max.message.bytes": "1000"}, "--task-retry", "1m")
			n := a.start("a")
			largest := randomText(929)
			a.write(a.kafka, "in", "l", largest)
			n.becomes(client.Strong(), "l", largest)

			a.write(a.kafka, "in", "ok", "v", "b", randomText(size)) // sent together, so processed in one transaction
			a.eventually(20*time.Second, "the task rests", func() error {
				st, err := n.status()
				if err == nil && st.GetState() != iqv1.ReplicaState_REPLICA_STATE_SUSPENDED {
					err = errors.New(st.String())
				}
				return err
			})
			n.expect(client.Any(), "l", largest, "ok", "absent", "b", "absent")
			if _, _, err := a.read(n.Client, "ok", client.Strong()); !errors.Is(err, iqerr.ErrNoActive) {
				t.Errorf("a strong read gave %v", err)
			}
			if got := a.committed(); got != 1 {
				t.Errorf("committed offset %d, want 1", got)
			}
			n.logs(time.Second, "task stopped")
			for _, r := range a.readAll(changelog) {
				if string(r.Key) != "l" {
					t.Errorf("%q is committed in the changelog", r.Key)
				}
			}
		})
	}
}

// transaction is the state in which the broker sees a node's transaction.
func (a *app) transaction(n *server) (kadm.DescribedTransaction, error) {
	id := a.name + "-" + n.id + "-0"
	all, err := a.admin.DescribeTransactions(a.ctx, id)
	if err != nil {
		return kadm.DescribedTransaction{}, err
	}
	return all.On(id, func(d *kadm.DescribedTransaction) error { return d.Err })
}

// A node that stands still in the middle of a transaction until Kafka has timed it out, and the group has dropped the
// node, makes another producer, joins again and processes the input again: once.
func TestS12KafkaTimedOutTransactionIsRepeated(t *testing.T) {
	t.Parallel()
	a := newApp(t, countYAML, map[string]int32{"in": 1, "out": 1}, "--transaction-timeout", "3s", "--commit-interval", "2s")
	n := a.start("a")
	a.write(a.kafka, "in", "warm", "1")
	a.sumsTo(30*time.Second, "counts", map[string]int64{"warm": 1})

	half := make([]string, 0, 100)
	for range 50 {
		half = append(half, "k", "1")
	}
	a.write(a.kafka, "in", half...)
	state := func(want ...string) func() error {
		return func() error {
			d, err := a.transaction(n)
			if err == nil && !strings.Contains(strings.Join(want, " "), d.State) {
				err = errors.New(d.State)
			}
			return err
		}
	}
	a.eventually(10*time.Second, "a transaction is under way", state("Ongoing"))
	if err := n.Pause(); err != nil {
		t.Fatal(err)
	}
	paused := time.Now()
	if err := state("Ongoing")(); err != nil {
		t.Fatalf("the node was not paused in the middle of a transaction: %v", err)
	}
	a.eventually(20*time.Second, "Kafka has aborted the transaction", state("CompleteAbort", "Empty"))
	n.dropped()
	a.write(a.kafka, "in", half...)
	t.Logf("continued after %s", time.Since(paused))
	began := time.Now()
	if err := n.Continue(); err != nil {
		t.Fatal(err)
	}
	a.sumsTo(30*time.Second, "counts", map[string]int64{"warm": 1, "k": 100})
	t.Logf("exact after another %s", time.Since(began))
	a.changesComplete("out", map[string]int64{"warm": 1, "k": 100})
	if d, err := a.transaction(n); err != nil || d.ProducerEpoch > 100 {
		t.Errorf("producer epoch %d, %v: the node made producers in a loop", d.ProducerEpoch, err)
	}
}

// Rebalances every two seconds and producers that are fenced neither skip nor repeat a record.
func TestS44KafkaAbortsAndRebalancesSkipNothing(t *testing.T) {
	t.Parallel()
	a := newApp(t, countYAML, map[string]int32{"in": 5, "out": 5})
	nodes := []*server{a.start("a"), a.start("b")}
	churn := a.start("churn")
	const (
		keys, inputs = 500, 5000
		rounds       = 8 // of 2 s
	)
	want := make(map[string]int64, keys)
	for i := range inputs {
		key := fmt.Sprintf("key-%d", i%keys)
		want[key]++
		a.kafka.Produce(a.ctx, &kgo.Record{Topic: a.topic("in"), Key: []byte(key), Value: []byte("1")}, nil)
		if i%25 == 24 {
			a.pause(2 * time.Second * rounds * 25 / inputs)
		}
		switch round := i * 2 * rounds / inputs; {
		case (i+1)%(inputs/rounds) == 0 && i+1 < inputs:
			if churn.Alive() {
				churn.stop()
			} else {
				churn.run()
			}
		case (i+1)%(inputs/rounds) == inputs/rounds/2: // in between, somebody takes a node's transactional id
			n := nodes[round/2%2]
			thief := a.client(kgo.TransactionalID(a.name + "-" + n.id + "-0"))
			if _, _, err := thief.ProducerID(a.ctx); err != nil {
				t.Fatal(err)
			}
			thief.Close()
		}
	}
	if err := a.kafka.Flush(a.ctx); err != nil {
		t.Fatal(err)
	}
	if churn.Alive() {
		churn.stop()
	}
	began := time.Now()
	a.sumsTo(time.Minute, "counts", want)
	a.changesComplete("out", want)
	t.Logf("exact %s after the last input", time.Since(began))
	aborts := 0
	for _, n := range nodes {
		log, err := n.Log()
		if err != nil {
			t.Fatal(err)
		}
		aborts += strings.Count(log, "transaction aborted")
	}
	if aborts < rounds/2 {
		t.Errorf("only %d transactions were aborted", aborts)
	}
}
