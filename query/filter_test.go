package query

import (
	"errors"
	"strings"
	"testing"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func jsonStore(kind string) metadata.StoreInfo {
	return metadata.StoreInfo{Name: "s", Partitions: 3, Kind: kind, ValueSerde: "json", ChangelogID: "log-1"}
}

func TestFilterSelectsAsCELUsersExpect(t *testing.T) {
	row := &iqv1.Row{
		Key: []byte("k7"), Partition: 2, TimestampMs: 1700000040000, StartMs: new(int64(60000)), EndMs: new(int64(120000)),
		Value: []byte(`{"age": 31, "name": "Ann", "tags": ["a", "b"], "ratio": 0.5, "home": {"city": "Ulm"}, "id": 9007199254740993, "big": 18446744073709551615, "none": null}`),
	}
	window, plain := jsonStore("window"), jsonStore("keyvalue")
	for text, want := range map[string]string{
		`value.age > 30`:                            "true",
		`value.age > 30.5`:                          "true",
		`value.age == 31`:                           "true",
		`value.age in [30, 31]`:                     "true",
		`value.age * 2.0 == 62.0`:                   "true",
		`value.home.city == "Ulm"`:                  "true",
		`value["name"].startsWith("A")`:             "true",
		`value.tags.exists(t, t == "b")`:            "true",
		`"a" in value.tags && !("c" in value.tags)`: "true",
		`value.id == 9007199254740993`:              "true", // a double would be ...992
		`value.id == 9007199254740992`:              "false",
		`value.big == 18446744073709551615u`:        "true",
		`value.none == null`:                        "true",
		`has(value.email)`:                          "false",
		`has(value.email) && value.email == ""`:     "false",
		`value.email == ""`:                         "error: no such key: email",
		`value.name > 3`:                            "error: no such overload",
		`value.age`:                                 "error: not bool",
		`key == "k7" && partition == 2`:             "true",
		`timestamp_ms >= 1700000040000`:             "true",
		`window_end_ms - window_start_ms == 60000`:  "true",
		`key.matches("^k[0-9]$")`:                   "true",
		`false && value.email == ""`:                "false",
	} {
		f, err := ParseFilter(text, &window)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := f.Match(row)
		switch problem, isError := strings.CutPrefix(want, "error: "); {
		case isError:
			if !errors.Is(err, iqerr.ErrInvalid) || !strings.Contains(err.Error(), problem) || !strings.Contains(err.Error(), `"k7" in partition 2`) ||
				!strings.HasPrefix(err.Error(), "selection.filter ") {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
		case err != nil || got != (want == "true"):
			t.Errorf("%s: %t, %v; want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`value.age >`:                         "Syntax error",
		`age > 3`:                             "undeclared reference to 'age'",
		`window_start_ms > 3`:                 "undeclared reference", // a key-value store has no windows
		`key + "x"`:                           "is of type string, not bool",
		`partition == "2"`:                    "found no matching overload",
		strings.Repeat("!", MaxFilterBytes+1): "more than 4096",
		strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200): "recursion limit",
	} {
		_, err := ParseFilter(text, &plain)
		if !errors.Is(err, iqerr.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.20s: %v, want %s", text, err, want)
		}
	}
	text := plain
	text.ValueSerde = "string"
	if _, err := ParseFilter("true", &text); !errors.Is(err, iqerr.ErrInvalid) || !strings.Contains(err.Error(), "needs json values") {
		t.Errorf("string values: %v", err)
	}
}

func TestFilterThatCostsTooMuchFailsAndDoesNotRunOn(t *testing.T) {
	store := jsonStore("keyvalue")
	f, err := ParseFilter(`value.all(a, value.all(b, value.all(c, a + b + c > -1.0)))`, &store)
	if err != nil {
		t.Fatal(err)
	}
	row := &iqv1.Row{Key: []byte("k"), Value: []byte("[" + strings.Repeat("1,", 999) + "1]")}
	if _, err := f.Match(row); !errors.Is(err, iqerr.ErrInvalid) || !strings.Contains(err.Error(), "cost limit exceeded") {
		t.Errorf("%v, want the cost limit", err)
	}
}

func TestFilterReadsNoValueThatItDoesNotNeed(t *testing.T) {
	store := jsonStore("keyvalue")
	for text, needs := range map[string]bool{`key > "a"`: false, `value.a == 1`: true, `[1].exists(x, has(value.a))`: true} {
		f, err := ParseFilter(text, &store)
		if err != nil {
			t.Fatal(err)
		}
		if f.NeedsValue() != needs {
			t.Errorf("%s: needs its value %t", text, f.NeedsValue())
		}
	}
	f, err := ParseFilter(`key == "k"`, &store)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := f.Match(&iqv1.Row{Key: []byte("k"), Value: []byte("not json")}); !ok || err != nil {
		t.Errorf("%t, %v", ok, err)
	}
	f, _ = ParseFilter(`value == null`, &store)
	if ok, err := f.Match(&iqv1.Row{Key: []byte("k"), Deleted: true}); !ok || err != nil {
		t.Errorf("a deletion: %t, %v", ok, err)
	}
	for _, value := range []string{"", "{", "{} {}", "nul"} {
		if _, err := f.Match(&iqv1.Row{Key: []byte("k"), Value: []byte(value)}); !errors.Is(err, iqerr.ErrInvalid) {
			t.Errorf("value %q: %v", value, err)
		}
	}
}

func TestProjectionKeepsFieldsAsTheyAreWritten(t *testing.T) {
	store := jsonStore("keyvalue")
	f, err := ParseFields([]string{"b", "a", "gone", `q"`}, &store)
	if err != nil {
		t.Fatal(err)
	}
	row := &iqv1.Row{Key: []byte("k"), Value: []byte(`{"a": 1.50, "x": {}, "b": [1, 2], "q\"": null}`)}
	if err := f.Project(row); err != nil || string(row.GetValue()) != `{"b":[1, 2],"a":1.50,"q\"":null}` {
		t.Errorf("%s, %v", row.GetValue(), err)
	}
	for _, value := range []string{"", "[1]", "3", "null", "{"} {
		row := &iqv1.Row{Key: []byte("k"), Value: []byte(value)}
		if err := f.Project(row); !errors.Is(err, iqerr.ErrInvalid) || !strings.Contains(err.Error(), `key "k"`) {
			t.Errorf("value %q: %v", value, err)
		}
	}
	if err := f.Project(&iqv1.Row{Deleted: true}); err != nil {
		t.Errorf("a deletion: %v", err)
	}
	if _, err := ParseFields([]string{"a", "a"}, &store); !errors.Is(err, iqerr.ErrInvalid) {
		t.Errorf("twice: %v", err)
	}
	if _, err := ParseFields(make([]string, MaxFields+1), &store); !errors.Is(err, iqerr.ErrInvalid) {
		t.Errorf("too many: %v", err)
	}
}

func BenchmarkFilter(b *testing.B) {
	store := jsonStore("keyvalue")
	f, err := ParseFilter(`value.age > 30 && value.name.startsWith("A")`, &store)
	if err != nil {
		b.Fatal(err)
	}
	row := &iqv1.Row{Key: []byte("k"), Value: []byte(`{"age": 31, "name": "Ann", "tags": ["a", "b"], "home": {"city": "Ulm"}}`)}
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := f.Match(row); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
