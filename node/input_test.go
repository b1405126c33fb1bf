package node

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
)

// What an input asks for and holds. `deliver records=10 size=84 wire=100` brings records of size bytes from where the input
// is; `deliver end=50` brings nothing while the log goes on to 50, and `deliver end=50 open=yes` because a transaction is open;
// `take limit=3` takes at most three.
func TestInputSituations(t *testing.T) {
	var in *input
	woken := 0
	datadriven.RunTest(t, "testdata/input.txt", func(t *testing.T, d *datadriven.TestData) string {
		arg := func(name string) int64 {
			v := "0"
			d.MaybeScanArgs(t, name, &v)
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				d.Fatalf(t, "%s: %v", name, err)
			}
			return n
		}
		var out strings.Builder
		switch d.Cmd {
		case "new":
			in = newInput(metadata.TopicPartition{Topic: "in"}, metadata.TaskID{}, 0, make(chan struct{}, 1), func() { woken++ })
			(&inputSet{}).set(append(make([]*input, 0, 1), filled(in, int(arg("inputs")))...))
			woken = 0
		case "deliver":
			b := batchFor(in, int(arg("records")), int(arg("size")), int(arg("wire")), arg("end"))
			if d.HasArg("open") {
				b.Stable = b.Next
			}
			in.Deliver(t.Context(), b)
		case "take":
			b, err := in.take(int(arg("limit")))
			fmt.Fprintf(&out, "took %d, next %d, error %v\n", len(b.Records), b.Next, err)
		default:
			d.Fatalf(t, "unknown command %s", d.Cmd)
		}
		_, next, asks := in.At()
		fmt.Fprintf(&out, "next %d, holds %d of %d, asks %t for %d, woke the fetcher %d times", next, in.mu.bytes, in.share.Load(), asks, in.Want(), woken)
		return out.String()
	})
}

// filled is in and as many others that there are n.
func filled(in *input, n int) []*input {
	all := []*input{in}
	for len(all) < n {
		all = append(all, newInput(metadata.TopicPartition{Topic: "in", Partition: int32(len(all))}, metadata.TaskID{}, 0, nil, nil))
	}
	return all
}

// batchFor is a batch of n records from where the input is.
func batchFor(in *input, n, size, wire int, end int64) kafka.Batch {
	_, from, _ := in.At()
	b := kafka.Batch{From: from, Next: from + int64(n), Bytes: wire, End: max(end, from+int64(n))}
	b.Stable = b.End
	for i := range n {
		b.Records = append(b.Records, &kgo.Record{Offset: from + int64(i), Value: make([]byte, size)})
	}
	return b
}

// However many inputs there are, together they may hold what one node may, or the least of each.
func TestInputsShareTheBound(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 1000; n++ {
		share := shareOf(n)
		if share > maxInputBytes || share < minInputBytes || int64(n)*share > max(aheadBytes, int64(n)*minInputBytes) {
			t.Fatalf("%d inputs: %d bytes each", n, share)
		}
	}
}

// An old batch, or one of an input that was closed, is not taken, and an error is told when what came before is gone.
func TestInputRefusesWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	in := newInput(metadata.TopicPartition{Topic: "in"}, metadata.TaskID{}, 5, make(chan struct{}, 1), func() {})
	in.Deliver(t.Context(), kafka.Batch{From: 3, Next: 6, Records: []*kgo.Record{{}}})
	if in.ready() {
		t.Error("a batch from another offset was taken")
	}
	in.Deliver(t.Context(), batchFor(in, 2, 1, 1, 0))
	in.Deliver(t.Context(), kafka.Batch{From: 7, Err: fmt.Errorf("broken")})
	if b, err := in.take(10); err != nil || len(b.Records) != 2 || b.Next != 7 {
		t.Errorf("%d records to %d, %v", len(b.Records), b.Next, err)
	}
	if _, err := in.take(10); err == nil {
		t.Error("the error is gone")
	}
	if _, _, asks := in.At(); asks {
		t.Error("it asks on after an error")
	}
	in.close()
	in.Deliver(t.Context(), batchFor(in, 2, 1, 1, 0))
	if len(in.mu.queue) != 0 {
		t.Error("a closed input took a batch")
	}
}
