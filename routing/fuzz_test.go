package routing

import "testing"

// FuzzPolicyText gives any text as a policy of a flag or file. What is taken is a policy that one may have.
func FuzzPolicyText(f *testing.F) {
	for _, text := range []string{"strong", "any,prefer=least_loaded", "max_staleness=2s,max_offset_lag=1000", "max_offset_lag=-5", "active,active", "max_staleness=-1ns", " any ,, ", "bounded", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePolicy(text)
		if err != nil {
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatalf("%q is taken as %s: %v", text, p, err)
		}
		if p.Mode == ModeBounded && p.MaxStaleness == NoBound && p.MaxOffsetLag == NoBound {
			t.Fatalf("%q is bounded by nothing", text)
		}
	})
}
