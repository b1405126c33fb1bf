package follow

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/iqgate/iqgate/topology"
)

// Draft is a file for a node that follows what the plan found, to be looked through: what no topic tells stands there as a
// comment. Serdes are what the records look like.
func Draft(c Config, p Plan, f Facts) string {
	c = c.withDefaults()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("application: %s", c.Application)
	line("replicas: %d", c.Replicas)
	line("stores:")
	for _, s := range p.Stores {
		if s.Buffer || s.Partitions == 0 {
			continue
		}
		line("  - store: %s", s.Spec.Name)
		if s.Spec.Changelog != ChangelogOf(c.Application, s.Spec.Name) {
			line("    topic: %s", s.Spec.Changelog)
		}
		if s.KindKnown {
			line("    kind: %s", s.Spec.Kind)
		} else {
			line("    # kind: keyvalue, window, session or versioned")
		}
		records := f.Topics[s.Spec.Changelog].Records
		if s.KindKnown && s.Spec.Kind == topology.Window {
			draftWindow(line, s.Spec, records)
		}
		if s.Spec.Retention > 0 {
			line("    retention: %s", s.Spec.Retention)
		} else if s.KindKnown && s.Spec.Kind != topology.KeyValue {
			line("    # retention: the application's; the topic does not tell it")
		}
		keys, values := looksLikeBoth(keysAndValues(s.Spec, records))
		line("    key_serde: %s", chosen(s.Spec.KeySerde, keys))
		line("    value_serde: %s", chosen(s.Spec.ValueSerde, values))
		switch {
		case len(s.Inputs) > 0 && !s.Own:
			line("    inputs: [%s]", strings.Join(s.Inputs, ", "))
		case !s.Own:
			line("    # inputs: [the topics that the store's sub-topology reads], for at_least")
		}
	}
	return b.String()
}

func draftWindow(line func(string, ...any), spec topology.StoreSpec, records []Record) {
	if spec.WindowSize > 0 {
		line("    window_size: %s", spec.WindowSize)
		return
	}
	hint := ""
	if step := stepOf(records); step > 0 {
		hint = fmt.Sprintf("; those seen begin at multiples of %s", step.Round(time.Millisecond))
	}
	line("    # window_size: required, as the application has it%s", hint)
}

func chosen(configured, seen string) string {
	if configured != topology.NameBytes {
		return configured
	}
	return seen
}

// keysAndValues are the keys, as users know them, and the values of records.
func keysAndValues(spec topology.StoreSpec, records []Record) (keys, values [][]byte) {
	schema := Schema(spec)
	for _, r := range records {
		if r.Key == nil {
			continue
		}
		c, err := schema.FromChangelog(r.Key, r.Value, r.Timestamp)
		if err != nil {
			continue
		}
		if key, _, err := schema.Decode(c.Key); err == nil {
			keys = append(keys, key)
		}
		if r.Value != nil {
			values = append(values, r.Value)
		}
	}
	return keys, values
}

// looksLikeBoth guesses serdes for people to look at: the first that fits all of what was seen.
func looksLikeBoth(keys, values [][]byte) (key, value string) {
	return looksLike(keys, topology.NameString, topology.NameInt64, topology.NameInt32),
		looksLike(values, topology.NameJSON, topology.NameString, topology.NameInt64, topology.NameInt32)
}

func looksLike(seen [][]byte, serdes ...string) string {
	for _, name := range serdes {
		serde, err := topology.SerdeByName(name)
		fits := err == nil && len(seen) > 0
		for _, b := range seen {
			if !fits {
				break
			}
			_, err := serde.Format(b)
			fits = err == nil && (name != topology.NameString || printable(b)) && (name != topology.NameJSON || len(b) > 0 && (b[0] == '{' || b[0] == '['))
		}
		if fits {
			return name
		}
	}
	return topology.NameBytes
}

// printable says whether bytes are text that a person can read: eight bytes of a small number are UTF-8 too.
func printable(b []byte) bool {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError || r < ' ' {
			return false
		}
		i += n
	}
	return true
}
