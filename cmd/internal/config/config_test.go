package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// values are where the settings of the program under test are kept.
type values struct {
	Name, Dir, Text string
	Peers           []string
	Count           int
	Small           int16
	Long, Short     time.Duration
	Room            int64
	Fast            bool
	Mode            string
	Word            string
}

// testProgram has a setting of each kind.
func testProgram() (*Program, *values) {
	v := &values{}
	return &Program{
		Name: "iqtest", About: "iqtest is for tests.\n", After: "exit codes: none\n", Others: []string{"IQTEST_CRASH"},
		Groups: []Group{
			{Title: "Texts", Settings: []Setting{
				Text("name", "Name", "NAME", "", &v.Name, "its name").Require(),
				File("dir", "Dir", &v.Dir, "where it is"),
				FileOf("text", "", func(data []byte) error { v.Text = string(data); return errorIf(len(data) == 0, "is empty") }, "what it says"),
				List("peers", "Peers", "HOST", &v.Peers, "its peers"),
				Choice("mode", "Mode", "MODE", "calm", []string{"calm", "loud"}, func(word string) error { v.Mode = word; return nil }, "how it is | or not"),
				Secret("word", &v.Word, "its word"),
				File("word-file", "", &v.Dir, "its word, in a file"),
			}},
			{Title: "Numbers", Settings: []Setting{
				Number("count", "Count", &v.Count, "7", 1, 1000, "how many").Or("0", func() { v.Count = -1 }),
				Number("small", "Small", &v.Small, "-1", 1, math.MaxInt16, "a small one").Or("-1", func() { v.Small = -1 }),
				Duration("long", "Long", &v.Long, "10m", time.Second, 0, "a long time"),
				Duration("short", "Short", &v.Short, "1s", 0, 0, "a short time").Must("at most long"),
				Size("room", "Room", &v.Room, "16MiB", 1<<10, "how much room"),
				Switch("fast", "Fast", &v.Fast, "whether it is fast"),
			}},
		},
		Check: func() error {
			return errors.Join(errorIf(v.Name == "", `config: Name "": is required`), errorIf(v.Short > v.Long, fmt.Sprintf("Short %q: must be at most Long %s", v.Short, v.Long)))
		},
	}, v
}

func errorIf(is bool, text string) error {
	if is {
		return errors.New(text)
	}
	return nil
}

// Each case is a start of the program: "load ARGUMENTS", with lines of IQTEST_* for the environment; what follows "file:" is
// T/c.yaml. It prints what the command line asked for, or what differs from the defaults.
func TestLoad(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			dir := t.TempDir()
			head, file, hasFile := strings.Cut(d.Input+"\n", "file:\n")
			if hasFile {
				if err := os.WriteFile(filepath.Join(dir, "c.yaml"), []byte(file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var args, env []string
			for line := range strings.Lines(strings.ReplaceAll(head, "T/", dir+"/")) {
				if line = strings.TrimSpace(line); strings.HasPrefix(line, "IQTEST_") {
					env = append(env, line)
				} else if line != "" {
					args = append(args, strings.Fields(line)...)
				}
			}
			p, v := testProgram()
			loaded, err := p.Load(args, env)
			var out strings.Builder
			switch {
			case err != nil:
				fmt.Fprintln(&out, err)
			case loaded.Answer != "":
				out.WriteString(strings.ReplaceAll(loaded.Answer, runtime.Version(), "GO"))
			default:
				for _, value := range loaded.Values {
					if value.Origin != "" {
						fmt.Fprintf(&out, "%s = %s (%s)\n", value.Setting.Name, value.Text, value.Origin)
					}
				}
				fmt.Fprintf(&out, "%+v\n", *v)
			}
			return strings.ReplaceAll(out.String(), dir+"/", "T/")
		})
	})
}

func TestSizesHaveUnits(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "65536": 65536, "1KiB": 1 << 10, "16 MiB": 16 << 20, "1.5GB": 1_500_000_000, "0.5KiB": 512, "3B": 3, "2TiB": 2 << 40, "1kB": 1000, "-1": -1,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"": errSize, "MiB": errSize, "1mb": errSize, "1.0001kB": errSize, "0x10": errSize, "nan": errSize, "1 2": errSize, "1_0": errSize, "inf": errSize,
		"9223372036854775808": errRange, "8388608TiB": errRange, "9e18kB": errRange, "-9000000TiB": errRange,
	} {
		if got, err := parseSize(text); !errors.Is(err, want) {
			t.Errorf("%q: %d, %v; want %v", text, got, err, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 1000: "1000", 1 << 10: "1KiB", 256 << 10: "256KiB", 3 << 29: "1536MiB", 1 << 40: "1TiB"} {
		if got := formatSize(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// FuzzSize: whatever is written is read back as the same.
func FuzzSize(f *testing.F) {
	for _, n := range []int64{0, 1, 1023, 1 << 10, 1<<40 + 1, math.MaxInt64, -1 << 20} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		if got, err := parseSize(formatSize(n)); err != nil || got != n {
			t.Errorf("%d was written as %q and read as %d, %v", n, formatSize(n), got, err)
		}
	})
}

// TestTheSchemaAllowsTheDefaults: an editor must not find fault with what --print-config prints.
func TestTheSchemaAllowsTheDefaults(t *testing.T) {
	p, _ := testProgram()
	var schema struct {
		AdditionalProperties bool
		Properties           map[string]struct {
			Default any
			Pattern string
			Enum    []any
			AnyOf   []struct{ Pattern string }
		}
	}
	if err := json.Unmarshal([]byte(p.Schema()), &schema); err != nil {
		t.Fatal(err)
	}
	if _, ok := schema.Properties["word"]; ok || schema.AdditionalProperties {
		t.Error("the schema has a place for a secret, or for anything")
	}
	matched := 0
	for s := range p.all() {
		property, ok := schema.Properties[s.Name]
		if ok == (s.Kind == KindSecret) {
			t.Errorf("%s: in the schema: %t", s.Name, ok)
		}
		patterns := []string{property.Pattern}
		for _, one := range property.AnyOf {
			patterns = append(patterns, one.Pattern)
		}
		for _, pattern := range patterns {
			if text, isText := property.Default.(string); isText && pattern != "" {
				if matched++; !regexp.MustCompile(pattern).MatchString(text) {
					t.Errorf("%s: the default %q does not match %s", s.Name, text, pattern)
				}
			}
		}
	}
	if matched != 3 {
		t.Errorf("%d defaults had a pattern to match, want 3", matched)
	}
}

// TestADurationsPatternIsWhatGoReads.
func TestADurationsPatternIsWhatGoReads(t *testing.T) {
	pattern := regexp.MustCompile(durationPattern)
	for _, text := range []string{"1s", "100ms", "1h30m", "-1s", "1.5h", ".5s", "0", "10", "s", "1d", "", "1 s", "1.s", "+2m"} {
		_, err := time.ParseDuration(text)
		if pattern.MatchString(text) != (err == nil) {
			t.Errorf("%q: matches: %t, but %v", text, err != nil, err)
		}
	}
}

// TestAStrangersNameIsNotComparedWithoutBound: a name in a file may be as long as the file.
func TestAStrangersNameIsNotComparedWithoutBound(t *testing.T) {
	if got := suggest(strings.Repeat("n", 1<<20), []string{"name"}); got != "" {
		t.Error(got)
	}
	if got := suggest("NAEM", []string{"mode", "name"}); got != "; did you mean name?" {
		t.Error(got)
	}
}

func TestGeneratedPartsKeepWhatIsAroundThem(t *testing.T) {
	g := Generated{File: "c.md", Mark: "x"}
	text := "a\n<!-- begin x: make generate writes this -->\nold\n<!-- end x -->\nb\n"
	got, err := g.Into(text, "new\n")
	if want := strings.Replace(text, "old", "new", 1); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if _, err := g.Into("a\n<!-- begin x: make generate writes this -->\nb", "new"); err == nil {
		t.Error("a part without an end was taken")
	}
}
