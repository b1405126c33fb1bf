//go:build kafka

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"testing"
)

// The demo is exact on a real Kafka too, and reads that tolerate staleness do not notice the kill.
func TestKafkaDemoIsExact(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), kafkaTestTimeout)
	defer cancel()
	startBroker(ctx, t)
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program(ctx, t, "iqctl"), "demo", "--json", "--duration", "20s", "--kafka", shared.broker.Addr(), "--state-dir", t.TempDir())
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &out, &errs)
	}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	var got struct {
		RecordsIn       int64   `json:"records_in"`
		SumOfCounts     int64   `json:"sum_of_counts"`
		ExactlyOnce     bool    `json:"exactly_once"`
		TopDestinations [][]any `json:"top_destinations"`
		Reads           []struct {
			Policy string `json:"policy"`
			Served int64  `json:"served"`
			Failed int64  `json:"failed"`
		} `json:"reads"`
		StrongBack int64 `json:"strong_back_after_kill_ms"`
	}
	if err := json.Unmarshal(lines[len(lines)-1], &got); err != nil {
		t.Fatalf("the last line is no object: %v\n%s", err, &out)
	}
	if !got.ExactlyOnce || got.RecordsIn != 27_004 || got.SumOfCounts != 27_004 {
		t.Errorf("%+v", got)
	}
	want := [][]any{{"ATL", 1396.0}, {"ORD", 1269.0}, {"BOS", 1245.0}}
	for i, w := range want {
		if len(got.TopDestinations) <= i || got.TopDestinations[i][0] != w[0] || got.TopDestinations[i][1] != w[1] {
			t.Errorf("destination %d is not %v: %v", i+1, w, got.TopDestinations)
		}
	}
	for _, r := range got.Reads {
		if r.Served == 0 || r.Failed > 0 && (r.Policy == "any" || r.Policy == "max_staleness: 10s") {
			t.Errorf("policy %s: %d served, %d failed", r.Policy, r.Served, r.Failed)
		}
	}
	if got.StrongBack < 0 {
		t.Error("strong reads never came back after the kill")
	}
}
