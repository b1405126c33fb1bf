package follow

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// The commands of testdata/resolve:
//
//	topic NAME [partitions=N] [policy=compact] [retention=MS] [lag=MS] [unreadable]
//	  lines: KIND KEY [TIME...] = VALUE @ TIMESTAMP, where KIND is kv, win, sess or dup, VALUE null, 0xHEX, int64:N or text
//	group STATE [reads=(TOPIC,...)]
//	resolve
//	  a file for iqnode --replica, or application: NAME and discover: true
//	draft
//	  the same
func TestResolve(t *testing.T) {
	datadriven.Walk(t, "testdata/resolve", func(t *testing.T, path string) { //nolint:thelper // the test itself
		facts := Facts{Topics: map[string]Topic{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "topic":
				topic := readTopic(t, d)
				facts.Topics[topic.Name] = topic
				return ""
			case "group":
				facts.GroupState, facts.Committed = d.CmdArgs[0].Key, nil
				for _, arg := range d.CmdArgs {
					if arg.Key == "reads" {
						facts.Committed = slices.Sorted(slices.Values(arg.Vals))
					}
				}
				return ""
			case "resolve", "draft":
				c, err := LoadYAML([]byte(d.Input))
				if err != nil {
					return "error: " + err.Error() + "\n"
				}
				plan := Resolve(*c, facts)
				if d.Cmd == "draft" {
					return Draft(*c, plan, facts)
				}
				return planText(plan)
			}
			t.Fatalf("command %q is not known", d.Cmd)
			return ""
		})
	})
}

func readTopic(t *testing.T, d *datadriven.TestData) Topic {
	t.Helper()
	topic := Topic{Name: d.CmdArgs[0].Key, Partitions: 1, Configs: map[string]string{"cleanup.policy": "compact", "retention.ms": "-1"}}
	for _, arg := range d.CmdArgs[1:] {
		switch arg.Key {
		case "partitions":
			n, err := strconv.ParseInt(arg.Vals[0], 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			topic.Partitions = int32(n)
		case "policy":
			topic.Configs["cleanup.policy"] = strings.Join(arg.Vals, ",")
		case "retention":
			topic.Configs["retention.ms"] = arg.Vals[0]
		case "lag":
			topic.Configs["min.compaction.lag.ms"] = arg.Vals[0]
		case "unreadable":
			topic.Configs = nil
		default:
			t.Fatalf("argument %s is not known", arg.Key)
		}
	}
	for line := range strings.Lines(d.Input) {
		topic.Records = append(topic.Records, readRecord(t, strings.TrimSpace(line)))
	}
	topic.Offsets = int64(len(topic.Records))
	return topic
}

func readRecord(t *testing.T, line string) Record {
	t.Helper()
	head, rest, ok := strings.Cut(line, " = ")
	value, at, timed := strings.Cut(rest, " @ ")
	f := strings.Fields(head)
	if !ok || !timed || len(f) < 2 {
		t.Fatalf("record %q", line)
	}
	number := func(s string) uint64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return uint64(n)
	}
	r := Record{Key: bytesOf(t, f[1]), Value: bytesOf(t, value), Timestamp: int64(number(at))}
	switch f[0] {
	case "win", "dup":
		r.Key = binary.BigEndian.AppendUint64(r.Key, number(f[2]))
		sequence := uint32(0)
		if f[0] == "dup" {
			sequence = 7
		}
		r.Key = binary.BigEndian.AppendUint32(r.Key, sequence)
	case "sess": // start, end
		r.Key = binary.BigEndian.AppendUint64(r.Key, number(f[3]))
		r.Key = binary.BigEndian.AppendUint64(r.Key, number(f[2]))
	}
	return r
}

func bytesOf(t *testing.T, text string) []byte {
	t.Helper()
	if text == "null" {
		return nil
	}
	if digits, ok := strings.CutPrefix(text, "0x"); ok {
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if n, ok := strings.CutPrefix(text, "int64:"); ok {
		v, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return binary.BigEndian.AppendUint64(nil, uint64(v))
	}
	return []byte(text)
}

func planText(p Plan) string {
	var b strings.Builder
	for _, s := range p.Stores {
		served := "served"
		if !s.Served() {
			served = "not served"
		}
		kind := "kind unknown"
		if s.KindKnown {
			kind = s.Spec.Kind.String()
		}
		fmt.Fprintf(&b, "%s: %s, %s, %d partitions of %s", s.Spec.Name, served, kind, s.Partitions, s.Spec.Changelog)
		if s.Spec.WindowSize > 0 {
			fmt.Fprintf(&b, ", windows of %s", s.Spec.WindowSize)
		}
		if s.Spec.Retention > 0 {
			fmt.Fprintf(&b, ", retention %s", s.Spec.Retention)
		}
		if len(s.Inputs) > 0 {
			fmt.Fprintf(&b, ", at_least of %s", strings.Join(s.Inputs, ","))
		}
		b.WriteString("\n")
		for _, problem := range s.Problems {
			fmt.Fprintf(&b, "  %s: %s\n", problem.Severity, problem.Text)
		}
	}
	for _, problem := range p.Problems {
		fmt.Fprintf(&b, "%s: %s\n", problem.Severity, problem.Text)
	}
	return b.String()
}

// Nodes whose lists of stores differ must mean the same by a task, so a store's number is its name's alone and stays what it
// is.
func TestNumberOfAStoreIsItsNames(t *testing.T) {
	if SubtopologyOf("counts") != 1509931909 {
		t.Errorf("counts has number %d, other releases say 1509931909", SubtopologyOf("counts"))
	}
}

// Somebody who got a file wrong is to hear of all of it at once.
func TestConfigNamesEveryFault(t *testing.T) {
	err := Config{
		Application: "a b", Group: "a b", Replicas: 101,
		Stores: []Store{
			{Name: "x", Kind: "table"},
			{Name: "x", Topic: "a b-y-changelog", WindowSize: -1},
			{Name: "z", Kind: "keyvalue", Retention: 1, KeySerde: "varint"},
		},
	}.Validate()
	if err == nil {
		t.Fatal("no fault")
	}
	for _, want := range []string{
		`application "a b"`, `is the application's own group`, `replicas "101"`, `kind "table": must be keyvalue`, `store "x": is there twice`,
		`window_size "-1ns"`, `retention "1ns"`, `key_serde "varint"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing says %s in:\n%v", want, err)
		}
	}
}
