package auth

import (
	"testing"
	"time"
)

// TestNamesOfARouterAreNeverThoseOfOthers: what a name has inside, such as a subject that its holder chose, must not make it
// several names, whatever was asked before.
func TestNamesOfARouterAreNeverThoseOfOthers(t *testing.T) {
	rules, err := ParseRules([]byte(`
routers: ["cn:r"]
rules: [{who: ["group:admins"], allow: [control]}]
`))
	if err != nil {
		t.Fatal(err)
	}
	pol := &policy{rules: rules}
	router := &caller{Principal: Principal{Names: []string{"cn:r"}}, policy: pol}
	router.grants = rules.grants(router.Principal)
	g := &Guard{}
	for _, c := range []struct {
		names []string
		may   bool
	}{
		{[]string{"sub:a", "group:admins"}, true},
		{[]string{"sub:a\x00group:admins"}, false},
		{[]string{"sub:a\x0cgroup:admins"}, false},
		{[]string{"sub:a", "group:admins"}, true},
		{[]string{"", "sub:agroup:admins"}, false},
	} {
		got, err := g.speaksFor(router, c.names)
		if err != nil {
			t.Fatal(err)
		}
		if err := got.grants.allow([]Access{{Action: Control}}); (err == nil) != c.may {
			t.Errorf("%q: %v", c.names, err)
		}
	}
}

// TestARoutersOwnCredentialsBoundForWhomItAsks, also when another router asked for the same caller before.
func TestARoutersOwnCredentialsBoundForWhomItAsks(t *testing.T) {
	rules, err := ParseRules([]byte(`routers: ["cn:r*"]`))
	if err != nil {
		t.Fatal(err)
	}
	pol, now := &policy{rules: rules}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	g := &Guard{}
	for name, left := range map[string]time.Duration{"cn:r1": time.Minute, "cn:r2": time.Hour} {
		router := &caller{Principal: Principal{Names: []string{name}, Expires: now.Add(left)}, policy: pol}
		router.grants = rules.grants(router.Principal)
		c, err := g.speaksFor(router, []string{"sub:a"})
		if err != nil {
			t.Fatal(err)
		}
		if !c.valid(pol, nil, now.Add(left-1)) || c.valid(pol, nil, now.Add(left)) {
			t.Errorf("%s, whose credentials end at %v, speaks for others until %v", name, now.Add(left), c.Expires)
		}
	}
}
