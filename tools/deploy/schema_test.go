package deploy

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// TestTheSchemasOfSettingsAcceptWhatProgramsAccept: an editor that checks a file of settings must find fault with what a program
// refuses, and with nothing else.
func TestTheSchemasOfSettingsAcceptWhatProgramsAccept(t *testing.T) {
	topology := filepath.Join(t.TempDir(), "topology.yaml")
	if err := os.WriteFile(topology, []byte("application: counts\nsources: [{topic: words, format: raw}]\naggregates: [{store: counts, source: words, count: true}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		program   string
		args      []string
		good, bad []string // lines of a file
	}{
		{
			program: "iqnode", args: []string{"--node-id", "a", "--topology", topology, "--brokers", "k:9092", "--state-dir", "s", "--drain-timeout=-1s"},
			good: []string{"brokers: [a:1, b:2]", "standbys: 0", "replication-factor: -1", "max-uncommitted-bytes: 32MiB", "max-uncommitted-bytes: 65536", "lease: 1h30m", "kafka-sasl: plain", "sync-writes: true"},
			bad:  []string{"brokers: []", "standbys: -1", "replication-factor: 0", "max-uncommitted-bytes: 32MB2", "lease: 10", "kafka-sasl: kerberos", "sync-writes: 7", "leese: 1s", "kafka-password: x"},
		},
		{
			program: "iqrouter", args: []string{"--node-timeout", "3s"},
			good: []string{"listen: 127.0.0.1:0", "max-message-bytes: 256KiB", "hedge: false"},
			bad:  []string{"max-scans: 0", "max-message-bytes: 1", "log-level: loud", "name: [a]", "suspect_after: 1s"},
		},
	} {
		schema := schemaOf(t, c.program)
		printed, err := exec.Command(filepath.Join(bin, c.program), append(c.args, "--print-config")...).Output()
		if err != nil {
			t.Fatalf("%s --print-config: %v", c.program, err)
		}
		for _, text := range append(c.good, string(printed)) {
			if err := schema.Validate(asJSON(t, text)); err != nil {
				t.Errorf("%s: the schema refuses %s: %v", c.program, text, err)
			}
		}
		for _, text := range c.bad {
			if schema.Validate(asJSON(t, text)) == nil {
				t.Errorf("%s: the schema accepts %s", c.program, text)
			}
		}
	}
}

// schemaOf is the schema that a program prints, which must be the one in docs/.
func schemaOf(t *testing.T, program string) *jsonschema.Schema {
	t.Helper()
	text, err := exec.Command(filepath.Join(bin, program), "config", "schema").Output()
	if err != nil {
		t.Fatalf("%s config schema: %v", program, err)
	}
	if kept, err := os.ReadFile(filepath.Join(root, "docs", program+".schema.json")); err != nil || !bytes.Equal(kept, text) {
		t.Errorf("docs/%s.schema.json is not what the program prints (%v)", program, err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(program+".json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(program + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// asJSON is YAML as the schema's validator reads it.
func asJSON(t *testing.T, text string) any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}
