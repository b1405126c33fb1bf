package store

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/datadriven"
)

func TestDirectoryIsJudgedByItsMarker(t *testing.T) {
	datadriven.Walk(t, "testdata/open", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			var m *marker
			if d.HasArg("marker") {
				m = &marker{Format: markerFormat, Synced: d.HasArg("synced")}
				var state string
				d.ScanArgs(t, "marker", &state)
				m.State = markerState(state)
				d.MaybeScanArgs(t, "format", &m.Format)
				if d.HasArg("boot") {
					d.MaybeScanArgs(t, "boot", &m.Boot)
				}
			}
			if d.Cmd == "opened" {
				return fmt.Sprintf("synced=%v\n", opened(m, "b1", d.HasArg("sync")).Synced)
			}
			var now string
			d.MaybeScanArgs(t, "now", &now)
			decision, err := decideOpen(m, d.HasArg("database"), now)
			switch {
			case err != nil:
				return err.Error() + "\n"
			case decision.wipe && decision.fresh:
				return "wipe, make a new store\n"
			case decision.fresh:
				return "make a new store\n"
			}
			return "open\n"
		})
	})
}
