package auth

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Rules are who may do what. ParseRules makes them.
type Rules struct {
	tokens  *tokenRules // nil when no token is accepted
	nodes   []nodePattern
	routers []pattern
	rules   []*rule
}

// tokenRules say which tokens are accepted.
type tokenRules struct {
	issuer   string
	audience []string
	groups   []string // claims with groups
}

// A rule allows actions to some.
type rule struct {
	who    []pattern
	allow  []Action
	stores []pattern
	keys   [][]byte // allowed prefixes; none for all keys
}

// document is the rules' file.
type document struct {
	Tokens *struct {
		Issuer       string   `yaml:"issuer"`
		Audience     []string `yaml:"audience"`
		GroupsClaims []string `yaml:"groups_claims"`
	} `yaml:"tokens"`
	Nodes   []string `yaml:"nodes"`
	Routers []string `yaml:"routers"`
	Rules   []struct {
		Who     []string  `yaml:"who"`
		Allow   []Action  `yaml:"allow"`
		Stores  []string  `yaml:"stores"`
		Keys    yaml.Node `yaml:"keys"`
		KeysHex yaml.Node `yaml:"keys_hex"`
	} `yaml:"rules"`
}

// granted are the actions that a rule may allow.
var granted = []Action{Read, Watch, Metadata, Control}

// defaultGroups is the claim with a token's groups.
const defaultGroups = "groups"

// ParseRules reads rules from YAML. The error names everything that is wrong, by rule and field. SECURITY.md has an example.
func ParseRules(text []byte) (*Rules, error) {
	var d document
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&d); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("rules: %w", err)
	}
	if err := dec.Decode(&document{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("rules: there must be one document")
	}
	var errs []error
	bad := func(where string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("rules: %s: %w", where, err))
		}
	}
	r := &Rules{}
	if t := d.Tokens; t != nil {
		r.tokens = &tokenRules{issuer: t.Issuer, audience: t.Audience, groups: t.GroupsClaims}
		if t.Issuer == "" {
			bad("tokens.issuer", errors.New("is required: tokens of this issuer alone are accepted"))
		}
		if len(t.Audience) == 0 || slices.Contains(t.Audience, "") {
			bad("tokens.audience", errors.New("is required: only tokens for one of these are accepted"))
		}
		if len(t.GroupsClaims) == 0 {
			r.tokens.groups = []string{defaultGroups}
		}
	}
	for i, text := range d.Nodes {
		p, err := parseNode(text)
		bad(fmt.Sprintf("nodes[%d]", i), err)
		r.nodes = append(r.nodes, p)
	}
	r.routers = parseAll("routers", d.Routers, parseName, bad)
	for i := range d.Rules {
		in := &d.Rules[i]
		at := fmt.Sprintf("rules[%d].", i)
		out := &rule{allow: in.Allow}
		out.who = parseAll(at+"who", in.Who, parseName, bad)
		out.stores = parseAll(at+"stores", in.Stores, parsePattern, bad)
		keys, err := prefixes(&in.Keys)
		bad(at+"keys", err)
		for _, k := range keys {
			out.keys = append(out.keys, []byte(k))
		}
		inHex, err := prefixes(&in.KeysHex)
		bad(at+"keys_hex", err)
		for j, k := range inHex {
			raw, err := hex.DecodeString(k)
			bad(fmt.Sprintf("%skeys_hex[%d]", at, j), err)
			out.keys = append(out.keys, raw)
		}
		r.rules = append(r.rules, out)
		bad(at+"allow", checkAllow(in.Allow))
		bad(at+"who", required(len(in.Who), "who may do this"))
		if !slices.Equal(in.Allow, []Action{Control}) {
			bad(at+"stores", required(len(in.Stores), "the stores that this is about; '*' is all of them"))
		} else if len(in.Stores)+len(out.keys) > 0 {
			bad(at+"allow", errors.New("control is about no store: leave stores and keys out"))
		}
		if slices.ContainsFunc(out.keys, func(k []byte) bool { return len(k) == 0 }) {
			bad(at+"keys", errors.New("a prefix is empty; leave keys out to allow all keys"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

// prefixes reads a list that may be left out. One that is there and empty, as a template may make it of nobody's prefixes, would
// allow all keys.
func prefixes(n *yaml.Node) ([]string, error) {
	var list []string
	switch {
	case n.IsZero():
		return nil, nil
	case n.Decode(&list) != nil:
		return nil, errors.New("must be a list of texts")
	case len(list) == 0:
		return nil, errors.New("has no prefix; leave it out to allow all keys")
	}
	return list, nil
}

func parseAll(where string, texts []string, parse func(string) (pattern, error), bad func(string, error)) []pattern {
	var all []pattern
	for i, text := range texts {
		p, err := parse(text)
		bad(fmt.Sprintf("%s[%d]", where, i), err)
		all = append(all, p)
	}
	return all
}

func required(n int, what string) error {
	if n == 0 {
		return errors.New("is required: " + what)
	}
	return nil
}

func checkAllow(actions []Action) error {
	if len(actions) == 0 {
		return errors.New("is required: read, watch, metadata or control")
	}
	for _, a := range actions {
		if !slices.Contains(granted, a) {
			return fmt.Errorf("%q: must be read, watch, metadata or control", string(a))
		}
	}
	if len(actions) > 1 && slices.Contains(actions, Control) {
		return errors.New("control is about no store: give it a rule of its own")
	}
	return nil
}
