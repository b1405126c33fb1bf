package router

import (
	"strings"
	"testing"

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// TestANodesVersionIsToldAndCut: a new one is told at once, and a long one is no reason to refuse a node's report.
func TestANodesVersionIsToldAndCut(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a := w.join("a", active(100))
		defer a.kill()
		for version, want := range map[string]string{"v1.2.3": "v1.2.3", strings.Repeat("ä", 50): strings.Repeat("ä", metadata.MaxVersionBytes/2)} {
			a.change(func(m *iqv1.HeartbeatRequest) { m.Version = version })
			advance(heartbeatEvery)
			resp, err := w.meta.ListInstances(t.Context(), &iqv1.ListInstancesRequest{})
			if err != nil || len(resp.GetInstances()) != 1 || resp.GetInstances()[0].GetVersion() != want {
				t.Errorf("%q: %v, %v", version, resp, err)
			}
		}
	})
}
