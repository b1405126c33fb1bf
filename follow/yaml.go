package follow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// MaxYAML is the largest file that LoadYAML reads, in bytes.
const MaxYAML = 1 << 20

// file is a Config as YAML has it.
type file struct {
	Application string      `yaml:"application"`
	Group       string      `yaml:"group"`
	Replicas    int         `yaml:"replicas"`
	Discover    bool        `yaml:"discover"`
	Stores      []fileStore `yaml:"stores"`
}

type fileStore struct {
	Store       string   `yaml:"store"`
	Topic       string   `yaml:"topic"`
	Kind        string   `yaml:"kind"`
	WindowSize  duration `yaml:"window_size"`
	Retention   duration `yaml:"retention"`
	KeySerde    string   `yaml:"key_serde"`
	ValueSerde  string   `yaml:"value_serde"`
	Partitioner string   `yaml:"partitioner"`
	Inputs      []string `yaml:"inputs"`
}

// duration is a number with a unit, such as 60s.
type duration time.Duration

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v <= 0 {
		return fmt.Errorf("line %d: %q is no duration such as 60s or 1h30m", n.Line, n.Value)
	}
	*d = duration(v)
	return nil
}

// LoadYAML reads a [Config] from its YAML form. It is strict: unknown and repeated fields, wrong types and everything that
// [Config.Validate] finds are errors.
//
//	application: orders             # required: application.id of the Kafka Streams application
//	group: orders-iqgate            # the nodes' own consumer group; the default
//	replicas: 2                     # copies of each store partition
//	discover: true                  # also every changelog of the application that can be understood as it is
//	stores:
//	  - store: counts               # required: the store's name; its changelog is orders-counts-changelog
//	    kind: keyvalue              # keyvalue | window | session | versioned; absent: what the topic tells
//	    key_serde: string           # for tools that show keys and values; default bytes
//	    value_serde: int64
//	    inputs: [orders]            # topics that at_least may ask of; see docs/java.md
//	  - store: per-minute
//	    kind: window
//	    window_size: 60s            # required for windows: no topic tells it
//	    retention: 2h               # absent: what the topic tells
//	  - store: customers            # a compacted topic as a table, or a source topic used as the changelog
//	    topic: customers
//	    partitioner: murmur2        # how its keys were put into partitions
func LoadYAML(data []byte) (*Config, error) {
	if len(data) > MaxYAML {
		return nil, fmt.Errorf("the file has %d bytes, at most %d are read", len(data), MaxYAML)
	}
	var f file
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the file is empty")
		}
		return nil, plain(err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("a second document; only one is allowed")
	}
	c := &Config{Application: f.Application, Group: f.Group, Replicas: f.Replicas, Discover: f.Discover}
	for _, s := range f.Stores {
		c.Stores = append(c.Stores, Store{
			Name: s.Store, Topic: s.Topic, Kind: s.Kind, WindowSize: time.Duration(s.WindowSize), Retention: time.Duration(s.Retention),
			KeySerde: s.KeySerde, ValueSerde: s.ValueSerde, Partitioner: s.Partitioner, Inputs: s.Inputs,
		})
	}
	return c, c.Validate()
}

// plain says what the YAML parser found without its names of Go types.
func plain(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = goType.ReplaceAllString(text, "is not known")
	text = strings.TrimPrefix(text, "unmarshal errors:\n  ")
	return errors.New(strings.ReplaceAll(text, "\n  ", "; "))
}

// goType matches how the parser says that a field is not known.
var goType = regexp.MustCompile(`not found in type follow\.\w+`)
