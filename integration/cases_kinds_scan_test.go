//go:build synctests

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// fillTable writes values of 100 bytes under key-000000 and on to the changelog of "tab", and waits until the node has them.
func (f *fixture) fillTable(n *bubble.Node, keys int) {
	f.t.Helper()
	value := make([]byte, 100)
	for i := range keys {
		rec := &kgo.Record{Topic: "app-tab-changelog", Key: fmt.Appendf(nil, "key-%06d", i), Value: value, Timestamp: time.UnixMilli(t0)}
		f.cl.Produce(f.ctx, rec, func(_ *kgo.Record, err error) {
			if err != nil {
				f.t.Error(err)
			}
		})
	}
	if err := f.cl.Flush(f.ctx); err != nil {
		f.t.Fatal(err)
	}
	f.waitPosition(n, "tab", 0, int64(keys))
}

// inFlight is how many queries the node is answering.
func (f *fixture) inFlight(n *bubble.Node) int32 {
	f.t.Helper()
	resp, err := n.Metadata().ListInstances(f.ctx, &iqv1.ListInstancesRequest{})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, in := range resp.GetInstances() {
		if in.GetNode() == n.ID {
			return in.GetInFlight()
		}
	}
	f.t.Fatalf("%s does not tell of itself", n.ID)
	return 0
}

// scanGoroutines is the stack of a goroutine that answers a scan; empty when there is none.
func scanGoroutines() string {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if bytes.Contains(stack, []byte("iqgate/serve.newSender")) || bytes.Contains(stack, []byte("iqgate/serve.(*queryServer)")) {
			return string(stack)
		}
	}
	return ""
}

// A node that stops, and closes its stores, under a scan ends it at once with a status that says so: never OK with rows
// missing, and neither a reader that is slow nor one that takes nothing at all holds it up. The directory can be opened
// again, and no goroutine stays.
func TestS33ScanEndsWhenItsStoreCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newKinds(t, 1)
		defer f.close()
		b := f.StartNode("b")
		f.waitAll(b, iqv1.Role_ROLE_STANDBY, 5)
		const keys = 200_000
		f.fillTable(b, keys)
		for _, name := range []string{"slow", "stuck"} {
			cc := f.Conn(b.Address)
			st, err := iqv1.NewQueryServiceClient(cc).Scan(f.ctx, &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "tab"}, Policy: anyReplica()})
			if err != nil {
				t.Fatal(err)
			}
			rows := 0
			for rows < 20_000 {
				m, err := st.Recv()
				if err != nil {
					t.Fatal(err)
				}
				rows += len(m.GetRows())
			}
			if scanGoroutines() == "" {
				t.Fatal("no goroutine of the scan is found")
			}
			stopping := time.Now()
			stopped := make(chan time.Duration, 1)
			go func() {
				b.Stop()
				stopped <- time.Since(stopping)
			}()
			if name == "stuck" { // what was sent to it may be on its way until the node's bound for calls has passed
				if took := <-stopped; took > 4*time.Second {
					t.Errorf("%s: the node took %s to stop", name, took)
				}
			}
			var ended error
			for ended == nil {
				m, err := st.Recv()
				rows += len(m.GetRows())
				if ended = err; name == "slow" {
					time.Sleep(2 * time.Millisecond)
				}
			}
			if name == "slow" {
				if took := <-stopped; took > 2*time.Second {
					t.Errorf("%s: the node took %s to stop", name, took)
				}
			}
			if code := status.Code(ended); errors.Is(ended, io.EOF) || code != codes.Unavailable && code != codes.Aborted {
				t.Errorf("%s: after %d rows the scan ended with %v", name, rows, ended)
			}
			_ = cc.Close()
			b = f.StartNode("b")
			f.waitAll(b, iqv1.Role_ROLE_STANDBY, 5)
			synctest.Wait()
			if left := scanGoroutines(); left != "" {
				t.Errorf("%s: a goroutine of the scan is left:\n%s", name, left)
			}
		}
		rows, _, err := scanAll(f.ctx, b.Query(), &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "tab"}, Policy: anyReplica()})
		if err != nil || len(rows) != keys {
			t.Errorf("afterwards %d rows, %v", len(rows), err)
		}
	})
}

// The partition of a running scan goes to another node; when the node lets go of its replica the scan ends, although its
// reader takes nothing.
func TestS33ScanEndsWhenItsPartitionIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newKinds(t, 1)
		defer f.close()
		b := f.StartNode("b", func(cfg *nodeConfig) { cfg.ReleaseDelay, cfg.ScanIdle = 3*time.Second, time.Hour })
		f.waitAll(b, iqv1.Role_ROLE_STANDBY, 5)
		f.fillTable(b, 100_000)
		st, err := b.Query().Scan(f.ctx, &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "tab"}, Policy: anyReplica()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Recv(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if n := f.inFlight(b); n != 1 {
			t.Fatalf("%d queries in flight", n)
		}
		// b is taken for dead and its place goes to c. When it is back there is none for it.
		b.Gate().Freeze()
		c := f.StartNode("c")
		f.waitAll(c, iqv1.Role_ROLE_STANDBY, 5)
		b.Gate().Thaw()
		released := func() error {
			resp, err := b.Metadata().ListLags(f.ctx, &iqv1.ListLagsRequest{})
			if err == nil && len(resp.GetReplicas()) > 0 {
				err = fmt.Errorf("%d replicas", len(resp.GetReplicas()))
			}
			return err
		}
		f.Eventually(60*time.Second, "released", released)
		f.Eventually(2*time.Second, "the scan has ended", func() error {
			if n := f.inFlight(b); n > 0 {
				return fmt.Errorf("%d queries in flight", n)
			}
			return nil
		})
		for err == nil {
			_, err = st.Recv()
		}
		if !errors.Is(iqerr.FromStatus(err), iqerr.ErrClosing) {
			t.Errorf("the scan ended with %v", err)
		}
	})
}

// A reader that takes nothing for the idle lease loses its scan, and what it held, and no other reader does; a page token
// goes on.
func TestReaderThatTakesNothingLosesItsScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newKinds(t, 1)
		defer f.close()
		b := f.StartNode("b")
		f.waitAll(b, iqv1.Role_ROLE_STANDBY, 5)
		const keys = 100_000
		f.fillTable(b, keys)
		req := &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "tab"}, Policy: anyReplica()}
		st, err := b.Query().Scan(f.ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(29 * time.Second)
		if n := f.inFlight(b); n != 1 {
			t.Errorf("after 29s %d queries in flight", n)
		}
		time.Sleep(2 * time.Second)
		if n := f.inFlight(b); n != 0 {
			t.Errorf("after 31s %d queries in flight", n)
		}
		rows := 0
		for {
			m, err := st.Recv()
			if err != nil {
				if !errors.Is(iqerr.FromStatus(err), iqerr.ErrSlowReader) {
					t.Errorf("the scan ended with %v", err)
				}
				break
			}
			rows += len(m.GetRows())
			req.PageToken = m.GetPageToken()
		}
		if rows == 0 || rows >= keys {
			t.Errorf("%d rows came", rows)
		}
		rest, _, err := scanAll(f.ctx, b.Query(), req)
		if err != nil || rows+len(rest) != keys || string(rest[0].GetKey()) != fmt.Sprintf("key-%06d", rows) {
			t.Errorf("%d rows and then %d, %v", rows, len(rest), err)
		}
	})
}

// A node runs so many scans at a time and refuses more; one that was left makes room.
func TestScansAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newKinds(t, 1)
		defer f.close()
		b := f.StartNode("b", func(cfg *nodeConfig) { cfg.MaxScans = 2 })
		f.waitAll(b, iqv1.Role_ROLE_STANDBY, 5)
		f.fillTable(b, 30_000)
		req := &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "tab"}, Policy: anyReplica()}
		ctx, leave := context.WithCancel(f.ctx)
		for range 2 {
			st, err := b.Query().Scan(ctx, req)
			if err == nil {
				_, err = st.Recv()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := scanAll(f.ctx, b.Query(), req); !errors.Is(err, iqerr.ErrOverloaded) {
			t.Errorf("a third scan gave %v", err)
		}
		if _, err := b.Query().Count(f.ctx, &iqv1.CountRequest{Selection: req.GetSelection(), Policy: anyReplica()}); !errors.Is(iqerr.FromStatus(err), iqerr.ErrOverloaded) {
			t.Errorf("a count gave %v", err)
		}
		leave()
		f.Eventually(time.Second, "room again", func() error {
			_, _, err := scanAll(f.ctx, b.Query(), req)
			return err
		})
	})
}

// Values beyond gRPC's default limit pass, and a large scan comes in small messages.
func TestS31LargeValuesPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newKinds(t, 1)
		defer f.close()
		b := f.StartNode("b")
		f.waitAll(b, iqv1.Role_ROLE_STANDBY, 5)
		_, err := kadm.NewClient(f.cl).AlterTopicConfigs(f.ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: new("33554432")}}, "app-tab-changelog")
		if err != nil {
			t.Fatal(err)
		}
		cl := f.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(32<<20), kgo.MaxBufferedBytes(128<<20))
		defer cl.Close()
		sizes := []int{4194304 - 100, 4561623, 20 << 20}
		for i, size := range sizes {
			value := bytes.Repeat([]byte{byte(1 + i)}, size)
			rec := &kgo.Record{Topic: "app-tab-changelog", Key: fmt.Appendf(nil, "large-%d", i), Value: value, Timestamp: time.UnixMilli(t0)}
			if err := cl.ProduceSync(f.ctx, rec).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 200 {
			rec := &kgo.Record{Topic: "app-tab-changelog", Key: fmt.Appendf(nil, "row-%03d", i), Value: make([]byte, 100_000), Timestamp: time.UnixMilli(t0)}
			if err := cl.ProduceSync(f.ctx, rec).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		f.waitPosition(b, "tab", 0, 203)
		cc, err := grpc.NewClient("passthrough:///"+b.Address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(f.Dial),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cc.Close() }()
		q := iqv1.NewQueryServiceClient(cc)
		for i, size := range sizes {
			resp, err := q.Get(f.ctx, &iqv1.GetRequest{Store: "tab", Key: fmt.Appendf(nil, "large-%d", i), Policy: anyReplica()})
			if err != nil || len(resp.GetValue()) != size || resp.GetValue()[size-1] != byte(1+i) {
				t.Errorf("%d bytes: %d, %v", size, len(resp.GetValue()), err)
			}
		}
		rows, msgs, err := scanAll(f.ctx, q, &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "tab"}, Policy: anyReplica()})
		if err != nil || len(rows) != 203 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for _, m := range msgs {
			size := 0
			for _, row := range m.GetRows() {
				size += len(row.GetValue())
			}
			if size > 1<<20 && len(m.GetRows()) > 1 {
				t.Errorf("a message of %d rows and %d bytes", len(m.GetRows()), size)
			}
		}
		many, err := q.MultiGet(f.ctx, &iqv1.MultiGetRequest{Store: "tab", Keys: [][]byte{[]byte("large-2"), []byte("large-0"), []byte("none")}, Policy: anyReplica()})
		if err != nil {
			t.Fatal(err)
		}
		if r := many.GetResults(); r[0].GetError().GetCode() != int32(codes.ResourceExhausted) || len(r[1].GetValue()) != sizes[0] || r[2].GetFound() || r[2].Read == nil {
			t.Errorf("MultiGet: errors %v, %v, %v", r[0].GetError(), r[1].GetError(), r[2].GetError())
		}
		keys, _, err := scanAll(f.ctx, b.Query(), &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "tab"}, Policy: anyReplica(), KeysOnly: true})
		if err != nil || len(keys) != 203 {
			t.Errorf("keys only, with gRPC's default limit: %d rows, %v", len(keys), err)
		}
	})
}

// A full scan through the router has every row or ends with a status that names the partition that is missing, whoever is
// killed in the middle; with a standby it has every row. (Not so under the policy any: a replica that restores may answer
// then with what it has.)
func TestS17ScanIsWholeOrNamesThePartitionThatIsMissing(t *testing.T) {
	for _, standbys := range []int{-1, 1} {
		t.Run(fmt.Sprintf("standbys=%d", standbys), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 3}, Topology: table, Routers: []string{"r1"}, Log: verboseLog(t)})
				f := &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client(kgo.MaxBufferedBytes(64 << 20))}
				defer f.close()
				const keys = 500
				sizes := make(map[int32]int)
				for i := range keys {
					rec := &kgo.Record{Topic: "in", Key: fmt.Appendf(nil, "key-%d", i), Value: make([]byte, 20_000)}
					if err := f.cl.ProduceSync(f.ctx, rec).FirstErr(); err != nil {
						t.Fatal(err)
					}
					sizes[rec.Partition]++
				}
				if sizes[0] != 153 || sizes[1] != 171 || sizes[2] != 176 {
					t.Fatalf("partitions have %v keys", sizes)
				}
				rt := f.StartRouter("r1")
				nodes := make(map[string]*bubble.Node)
				for _, id := range []string{"a", "b", "c"} {
					nodes[id] = f.StartNode(id, func(cfg *nodeConfig) { cfg.Standbys, cfg.DrainTimeout = standbys, -1 })
				}
				scan := func(during func(rows int, read map[int32]string)) (map[string]int, error) {
					st, err := rt.Query().Scan(f.ctx, &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "table"}, Policy: maxStaleness(30 * time.Second)})
					if err != nil {
						t.Fatal(err)
					}
					seen, read := make(map[string]int), make(map[int32]string)
					for {
						m, err := st.Recv()
						if err != nil {
							return seen, err
						}
						for _, r := range m.GetReads() {
							read[r.GetPartition()] = r.GetServed().GetNode()
						}
						for _, row := range m.GetRows() {
							seen[string(row.GetKey())]++
						}
						during(len(seen), read)
					}
				}
				quiet := func(int, map[int32]string) {}
				wantReplicas := 3
				if standbys > 0 {
					wantReplicas = 6
				}
				f.Eventually(60*time.Second, "each node has its part", func() error {
					all, most := 0, 0
					for _, n := range nodes {
						resp, err := n.Metadata().ListLags(f.ctx, &iqv1.ListLagsRequest{})
						if err != nil {
							return err
						}
						for _, r := range resp.GetReplicas() {
							if r.OffsetLag == nil || r.GetOffsetLag() > 0 || r.GetState() != iqv1.ReplicaState_REPLICA_STATE_RUNNING {
								return errors.New(r.String())
							}
						}
						all += len(resp.GetReplicas())
						most = max(most, len(resp.GetReplicas()))
					}
					if all != wantReplicas || most > wantReplicas/3 {
						return fmt.Errorf("%d replicas, %d at one node", all, most)
					}
					return nil
				})
				f.Eventually(20*time.Second, "a whole scan", func() error {
					seen, err := scan(quiet)
					if errors.Is(err, io.EOF) && len(seen) == keys {
						return nil
					}
					return fmt.Errorf("%d keys, %w", len(seen), err)
				})
				killed := false
				seen, err := scan(func(rows int, read map[int32]string) {
					if n := nodes[read[1]]; rows > 50 && n != nil && !killed {
						killed = true
						n.Kill()
					}
				})
				if !killed {
					t.Fatal("nobody was killed")
				}
				for key, n := range seen {
					if n != 1 {
						t.Errorf("%s came %d times", key, n)
					}
				}
				switch refusals, _ := iqerr.RefusalsOf(iqerr.FromStatus(err)); {
				case errors.Is(err, io.EOF):
					if len(seen) != keys {
						t.Errorf("OK with %d keys", len(seen))
					}
				case standbys > 0:
					t.Errorf("with a standby: %d keys and %v", len(seen), err)
				case refusals == nil || refusals.Partition != 1:
					t.Errorf("%v does not name partition 1", err)
				}
			})
		})
	}
}
