package query

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// TestRequestsByText runs testdata/requests. Commands, whose input is the request as protobuf text, against a store s of 3
// partitions with json values:
//
//	scan, count, multiget, watch [kind=keyvalue] [serde=json] [keys=N] [key_bytes=N]
func TestRequestsByText(t *testing.T) {
	datadriven.Walk(t, "testdata/requests", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			info := jsonStore("keyvalue")
			keys, keyBytes := 0, 1
			d.MaybeScanArgs(t, "kind", &info.Kind)
			d.MaybeScanArgs(t, "serde", &info.ValueSerde)
			d.MaybeScanArgs(t, "keys", &keys)
			d.MaybeScanArgs(t, "key_bytes", &keyBytes)
			read := func(m proto.Message) {
				if err := prototext.Unmarshal([]byte(d.Input), m); err != nil {
					d.Fatalf(t, "%v", err)
				}
			}
			var selection *Selection
			var more string
			var err error
			switch d.Cmd {
			case "scan":
				m := &iqv1.ScanRequest{}
				read(m)
				var s Scan
				s, err = ParseScan(m, info)
				selection, more = &s.Selection, fmt.Sprintf("reverse=%t limit=%d keys_only=%t by_partition=%t", s.Reverse, s.Limit, s.KeysOnly, s.ByPartition)
			case "count":
				m := &iqv1.CountRequest{}
				read(m)
				var c Count
				c, err = ParseCount(m, info)
				selection, more = &c.Selection, fmt.Sprintf("whole=%t", c.Whole())
			case "watch":
				m := &iqv1.WatchRequest{}
				read(m)
				var w Watch
				w, err = ParseWatch(m, info)
				selection, more = &w.Selection, fmt.Sprintf("from=%v", w.From)
			case "multiget":
				m := &iqv1.MultiGetRequest{}
				read(m)
				for range keys {
					m.Keys = append(m.Keys, make([]byte, keyBytes))
				}
				var g MultiGet
				g, err = ParseMultiGet(m, info)
				more = fmt.Sprintf("%d keys", len(g.Keys))
			default:
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			if err != nil {
				return err.Error() + "\n"
			}
			if selection == nil {
				return more + "\n"
			}
			return shown(selection) + more + "\n"
		})
	})
}

func shown(s *Selection) string {
	var b strings.Builder
	bytes := func(name string, v []byte) {
		if v != nil {
			fmt.Fprintf(&b, "%s=%q ", name, v)
		}
	}
	bytes("key", s.Key)
	bytes("from", s.Keys.From)
	bytes("to", s.Keys.To)
	bytes("prefix", s.Keys.Prefix)
	if s.Keys.FromOpen || s.Keys.ToOpen {
		fmt.Fprintf(&b, "open=%t,%t ", s.Keys.FromOpen, s.Keys.ToOpen)
	}
	if s.HasTimes {
		fmt.Fprintf(&b, "times=%d..%d ", s.Times.From, s.Times.To)
	}
	if s.AsOf != nil {
		fmt.Fprintf(&b, "as_of=%d ", *s.AsOf)
	}
	fmt.Fprintf(&b, "partitions=%v ", s.All())
	if s.Empty() {
		b.WriteString("EMPTY ")
	}
	return b.String()
}
