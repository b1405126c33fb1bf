//go:build synctests

package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/iqgate/iqgate/integration/bubble"
)

// A recorder writes down what a node asks of Kafka in the course of its transactions, and fails what it is told to.
type recorder struct {
	mu    sync.Mutex
	lines []string
	seen  map[string]int
	fail  string // "<step>:<n>", n from 1
	with  *kerr.Error
}

func (r *recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// now counts a step and says whether it fails this time.
func (r *recorder) now(step string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[step]++
	return r.fail == fmt.Sprintf("%s:%d", step, r.seen[step])
}

// watch records the requests of the transaction protocol at the broker.
func (r *recorder) watch(c *bubble.Cluster) {
	on := func(key kmsg.Key, step string, f func(kmsg.Request) string, failed func(kmsg.Request, int16) kmsg.Response) {
		c.Kafka.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.Kafka.KeepControl()
			what := f(req)
			if what == "" {
				return nil, nil, false
			}
			if r.now(step) && r.with != nil {
				r.add("%s: %s -> %s", step, what, r.with.Message)
				return failed(req, r.with.Code), nil, true //nolint:nilerr // the error is in the reply
			}
			r.add("%s: %s", step, what)
			return nil, nil, false
		})
	}
	on(kmsg.InitProducerID, "init-producer", func(req kmsg.Request) string {
		if id := req.(*kmsg.InitProducerIDRequest).TransactionalID; id != nil { //nolint:forcetypeassert // of this key
			return *id
		}
		return "" // the test's own
	}, func(req kmsg.Request, code int16) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse) //nolint:forcetypeassert // of this key
		resp.ErrorCode = code
		return resp
	})
	on(kmsg.AddPartitionsToTxn, "add-partitions", func(req kmsg.Request) string {
		var parts []string
		for _, t := range req.(*kmsg.AddPartitionsToTxnRequest).Topics { //nolint:forcetypeassert // of this key
			parts = append(parts, fmt.Sprintf("%s %v", t.Topic, t.Partitions))
		}
		return strings.Join(parts, ", ")
	}, nil)
	on(kmsg.Produce, "produce", func(req kmsg.Request) string {
		p := req.(*kmsg.ProduceRequest) //nolint:forcetypeassert // of this key
		if p.TransactionID == nil {
			return "" // the test's own
		}
		return p.Topics[0].Topic
	}, func(req kmsg.Request, code int16) kmsg.Response {
		p := req.(*kmsg.ProduceRequest)                    //nolint:forcetypeassert // of this key
		resp := req.ResponseKind().(*kmsg.ProduceResponse) //nolint:forcetypeassert // of this key
		t := kmsg.NewProduceResponseTopic()
		t.Topic, t.TopicID = p.Topics[0].Topic, p.Topics[0].TopicID
		tp := kmsg.NewProduceResponseTopicPartition()
		tp.Partition, tp.ErrorCode = p.Topics[0].Partitions[0].Partition, code
		t.Partitions = append(t.Partitions, tp)
		resp.Topics = append(resp.Topics, t)
		return resp
	})
	on(kmsg.AddOffsetsToTxn, "add-offsets", func(req kmsg.Request) string {
		return "group " + req.(*kmsg.AddOffsetsToTxnRequest).Group //nolint:forcetypeassert // of this key
	}, nil)
	on(kmsg.TxnOffsetCommit, "offsets", func(req kmsg.Request) string {
		p := req.(*kmsg.TxnOffsetCommitRequest) //nolint:forcetypeassert // of this key
		return fmt.Sprintf("%s-0 %d, generation %d", p.Topics[0].Topic, p.Topics[0].Partitions[0].Offset, p.Generation)
	}, func(req kmsg.Request, code int16) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse) //nolint:forcetypeassert // of this key
		t := kmsg.NewTxnOffsetCommitResponseTopic()
		t.Topic = "in"
		tp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
		tp.ErrorCode = code
		t.Partitions = append(t.Partitions, tp)
		resp.Topics = append(resp.Topics, t)
		return resp
	})
	on(kmsg.EndTxn, "end-txn", func(req kmsg.Request) string {
		if req.(*kmsg.EndTxnRequest).Commit { //nolint:forcetypeassert // of this key
			return "commit"
		}
		return "abort"
	}, func(req kmsg.Request, code int16) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.EndTxnResponse) //nolint:forcetypeassert // of this key
		resp.ErrorCode = code
		return resp
	})
	on(kmsg.OffsetFetch, "fetch-offsets", func(req kmsg.Request) string {
		if !req.(*kmsg.OffsetFetchRequest).RequireStable { //nolint:forcetypeassert // of this key
			return ""
		}
		return "stable"
	}, nil)
}

// The commit protocol step by step, as the broker sees it and with each step made to fail: `commit records=2
// fail=end-txn:1 with=INVALID_TXN_STATE`. One record is written at a time; at the end its count must be exact.
func TestCommitProtocolTraces(t *testing.T) {
	datadriven.RunTest(t, "testdata/commit_trace.txt", func(t *testing.T, d *datadriven.TestData) string {
		records := 2
		rec := &recorder{seen: make(map[string]int)}
		d.MaybeScanArgs(t, "records", &records)
		d.MaybeScanArgs(t, "fail", &rec.fail)
		var with string
		if d.MaybeScanArgs(t, "with", &with) {
			for code := int16(-1); code < 150; code++ {
				if e := kerr.TypedErrorForCode(code); e != nil && e.Message == with {
					rec.with = e
				}
			}
			if rec.with == nil {
				d.Fatalf(t, "%s is no error of Kafka", with)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 1}, Topology: countByKey, Log: verboseLog(t)})
			defer c.Close()
			rec.watch(c)
			n := c.StartNode("a", func(cfg *nodeConfig) {
				cfg.TaskRetry = 5 * time.Second
				cfg.Step = func(step string) error {
					if step == "apply" || step == "applied" {
						rec.add("(%s)", step)
					}
					if rec.with == nil && rec.now("step-"+step) {
						rec.add("(%s) -> crash", step)
						return errCrash
					}
					return nil
				}
			})
			cl := c.Client()
			defer cl.Close()
			c.Eventually(time.Minute, "the task runs", func() error {
				_, err := getCount(t.Context(), n.Query(), "k", strong())
				return err
			})
			for i := range records {
				rec.add("-- record %d", i)
				if err := bubble.Produce(t.Context(), cl, "in", "k", "x"); err != nil {
					t.Fatal(err)
				}
				c.Eventually(time.Minute, "exact count", func() error {
					got, err := getCount(t.Context(), n.Query(), "k", strong())
					if err == nil && got != int64(i+1) {
						err = fmt.Errorf("count is %d", got)
					}
					return err
				})
				time.Sleep(time.Second) // past the commit
			}
			rec.mu.Lock()
			defer rec.mu.Unlock()
			rec.lines = append(rec.lines, fmt.Sprintf("-- count is %d", records))
		})
		return strings.Join(rec.lines, "\n") + "\n"
	})
}
