package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const (
	table = "latest" // the last value of each key of the input
	// multiKeys are in one MultiGet, and so many different ones are asked for.
	multiKeys, multiRequests = 100, 1000

	tableYAML = `application: %s
sources:
  - {topic: %s, format: raw, value_serde: string}
tables:
  - {store: ` + table + `, source: %[2]s}
`
)

// manyReads asks a router in front of a node for many keys of a table: by prefix, by list, and one by one for comparison.
type manyReads struct{}

func (manyReads) gives() []string { return []string{fScanRows, fMultiKeys, fTableRate} }

func (manyReads) take(ctx context.Context, r *run) error {
	s, err := r.routedTable(ctx)
	if err != nil {
		return err
	}
	if err := r.scanRows(ctx, s.router); err != nil {
		return err
	}
	l := load{conns: loadConns, inFlight: loadInFlight, warm: r.size.warm, length: r.size.length}
	single, err := requests(table, r.keys)
	if err != nil {
		return err
	}
	one, err := l.run(ctx, s.router.address, single)
	if err != nil {
		return err
	}
	r.sayRate("keys of a table, one by one", one, 0)
	r.give(fTableRate, one.rate)

	several, err := marshalled(multiRequests, r.multiGet)
	if err != nil {
		return err
	}
	l.method, l.check = iqv1.QueryService_MultiGet_FullMethodName, checkMulti
	many, err := l.run(ctx, s.router.address, several)
	if err != nil {
		return err
	}
	many.rate *= multiKeys
	r.sayRate(fmt.Sprintf("keys of a table, %d at once", multiKeys), many, 0)
	r.give(fMultiKeys, many.rate)
	return nil
}

// routedTable starts a router and a node that keeps the last value of each key, or gives those that the group has.
func (r *run) routedTable(ctx context.Context) (routed, error) {
	return subject(r, "table", func() (routed, error) {
		r.say("starting a router and a node with a table")
		router, err := r.router()
		if err != nil {
			return routed{}, err
		}
		app := r.app("table")
		node, err := r.nodeOf(app, "node-1", fmt.Sprintf(tableYAML, app, events), 0, router.address)
		if err != nil {
			return routed{}, err
		}
		if err := r.start(node); err != nil {
			return routed{}, err
		}
		if _, err := r.awaitProcessed(ctx, node, app); err != nil {
			return routed{}, err
		}
		sample, err := requests(table, r.keys[:1])
		if err != nil {
			return routed{}, err
		}
		return routed{node, router}, r.awaitServing(ctx, router, sample)
	})
}

// multiGet is the i-th request for keys that lie apart.
func (r *run) multiGet(i int) proto.Message {
	m := &iqv1.MultiGetRequest{Store: table}
	step := max(1, len(r.keys)/multiKeys)
	for k := range multiKeys {
		m.Keys = append(m.Keys, []byte(r.keys[(i+k*step)%len(r.keys)]))
	}
	return m
}

// checkMulti looks into a reply to MultiGet.
func checkMulti(reply []byte) error {
	var m iqv1.MultiGetResponse
	if err := proto.Unmarshal(reply, &m); err != nil {
		return err
	}
	if n := len(m.GetResults()); n != multiKeys {
		return fmt.Errorf("%d results for %d keys", n, multiKeys)
	}
	for _, k := range m.GetResults() {
		if !k.GetFound() {
			return errors.New("a key that was written is not found")
		}
	}
	return nil
}

// scanRows scans the whole table by a prefix, again and again, in key order over all partitions, with a client that decodes
// every row.
func (r *run) scanRows(ctx context.Context, router *member) error {
	if !r.wants(fScanRows) {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.size.warm+r.size.length+loadSlack, errors.New("the scans do not end"))
	defer cancel()
	cc, err := dialFor(router.address)
	if err != nil {
		return err
	}
	defer cc.Close() //nolint:errcheck // nothing is lost
	ask := iqv1.NewQueryServiceClient(cc)
	var rows int
	var begin time.Time
	for start := time.Now(); begin.IsZero() || time.Since(begin) < r.size.length; {
		if begin.IsZero() && time.Since(start) >= r.size.warm {
			begin = time.Now()
		}
		n, err := scanOnce(ctx, ask)
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		if n != len(r.keys) {
			return fmt.Errorf("a scan gave %d rows of %d", n, len(r.keys))
		}
		if !begin.IsZero() {
			rows += n
		}
	}
	rate := float64(rows) / time.Since(begin).Seconds()
	r.say(fmt.Sprintf("prefix scan through the router: %.0f rows/s", rate))
	r.give(fScanRows, rate)
	return nil
}

// scanOnce counts the rows of one scan.
func scanOnce(ctx context.Context, ask iqv1.QueryServiceClient) (int, error) {
	stream, err := ask.Scan(ctx, &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: table, Keys: &iqv1.Selection_Prefix{Prefix: []byte("key-")}}}, grpc.WaitForReady(true))
	if err != nil {
		return 0, err
	}
	n := 0
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		n += len(m.GetRows())
	}
}
