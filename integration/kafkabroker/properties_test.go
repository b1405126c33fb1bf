package kafkabroker

import (
	"encoding/base64"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

func TestPropertiesAsText(t *testing.T) {
	datadriven.RunTest(t, "testdata/properties", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "render": // the input: overrides, one Go-quoted "key" "value" a line
			var dir, base string
			d.ScanArgs(t, "dir", &dir)
			if d.HasArg("base") {
				d.ScanArgs(t, "base", &base)
			}
			overrides := make(map[string]string)
			for line := range strings.Lines(d.Input) {
				key, err := strconv.QuotedPrefix(line)
				if err != nil {
					d.Fatalf(t, "line %q: %v", line, err)
				}
				overrides[unquote(t, key)] = unquote(t, strings.TrimSpace(line[len(key):]))
			}
			out, err := render(strings.ReplaceAll(base, ";", "\n"), placement{dataDir: unquote(t, strconv.Quote(dir)), port: 21000, controllerPort: 21001}, overrides)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			return out
		case "cluster-id":
			id, ok := clusterIDIn(d.Input)
			return strconv.Quote(id) + " " + strconv.FormatBool(ok) + "\n"
		default:
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		}
	})
}

// unquote reads a Go string literal.
func unquote(t *testing.T, text string) string {
	t.Helper()
	s, err := strconv.Unquote(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func TestEmbeddedPropertiesHoldNothingThatAStartDecides(t *testing.T) {
	for _, key := range []string{"log.dirs=", "listeners=", "controller.quorum.voters="} {
		if strings.Contains("\n"+serverProperties, "\n"+key) {
			t.Errorf("server.properties sets %s, which each start sets", key)
		}
	}
}

func TestClusterIDsAreKafkasAndNoOptions(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		id := newClusterID()
		if raw, err := base64.RawURLEncoding.DecodeString(id); err != nil || len(raw) != 16 || id[0] == '-' || seen[id] {
			t.Fatalf("cluster id %q: want 16 bytes in base64, no leading '-', never twice (%v)", id, err)
		}
		seen[id] = true
	}
}

func TestPortsAreBelowTheEphemeralRangeAndDiffer(t *testing.T) {
	a, b, err := pickPorts(freePort)
	if err != nil || a == b || min(a, b) < portLow || max(a, b) > portHigh {
		t.Errorf("pickPorts = %d, %d, %v; want two ports between %d and %d", a, b, err, portLow, portHigh)
	}
	if _, _, err := pickPorts(func() (int, error) { return portLow, nil }); err == nil {
		t.Error("the same port twice was accepted")
	}
}
