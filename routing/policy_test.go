package routing

import "testing"

func TestParsePolicy(t *testing.T) {
	for text, want := range map[string]string{
		"active":                              "active",
		"strong":                              "strong",
		"any,prefer=least_loaded":             "any",
		"max_staleness=5s":                    "any max_staleness=5s",
		"max_staleness=2s,max_offset_lag=100": "any max_staleness=2s max_offset_lag=100",
		"active,any":                          "error",
		"newest":                              "error",
		"":                                    "error",
		"max_staleness=soon":                  "error",
		"max_staleness=-5s":                   "error",
		"max_offset_lag=-5":                   "error",
		"any,prefer=luck":                     "error",
	} {
		p, err := ParsePolicy(text)
		if got := p.String(); (err != nil) != (want == "error") || (err == nil && got != want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}
