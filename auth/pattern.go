package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// nodeMark stands in a pattern for a node's id.
const nodeMark = "{node}"

// kinds are the kinds of names.
var kinds = []string{"uri", "dns", "cn", "sub", "group"}

// A pattern matches names or stores: a text, or the beginning of one before '*'.
type pattern struct {
	text string
	open bool // anything may follow
}

// parsePattern reads a text with perhaps one '*', at its end.
func parsePattern(text string) (pattern, error) {
	p := pattern{text: text}
	p.text, p.open = strings.CutSuffix(text, "*")
	switch {
	case text == "":
		return p, errors.New("must not be empty")
	case strings.Contains(p.text, "*"):
		return p, fmt.Errorf("%q: '*' may stand at the end only", text)
	}
	return p, nil
}

// parseName reads a pattern of names: with a kind, or '*' alone for everybody who is known.
func parseName(text string) (pattern, error) {
	p, err := parsePattern(text)
	if err != nil || text == "*" {
		return p, err
	}
	if strings.Contains(text, nodeMark) {
		return p, fmt.Errorf("%q: %s is for the list of nodes alone", text, nodeMark)
	}
	return p, checkKind(text)
}

func checkKind(text string) error {
	kind, rest, found := strings.Cut(text, ":")
	if !found || rest == "" || !slices.Contains(kinds, kind) {
		return fmt.Errorf("%q: must begin with %s and have something after it", text, strings.Join(kinds, ":, ")+":")
	}
	return nil
}

func (p pattern) matches(text string) bool {
	if p.open {
		return strings.HasPrefix(text, p.text)
	}
	return text == p.text
}

func anyMatches(patterns []pattern, texts ...string) bool {
	return slices.ContainsFunc(patterns, func(p pattern) bool { return slices.ContainsFunc(texts, p.matches) })
}

// A nodePattern matches names that have a node's id in them.
type nodePattern struct{ before, after string }

func parseNode(text string) (nodePattern, error) {
	before, after, found := strings.Cut(text, nodeMark)
	if !found || strings.Contains(after, nodeMark) || strings.Contains(text, "*") {
		return nodePattern{}, fmt.Errorf("%q: must have %s in it once, and no '*': a node speaks for one id", text, nodeMark)
	}
	return nodePattern{before, after}, checkKind(text)
}

// node is the id in a name.
func (p nodePattern) node(name string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(name, p.before)
	if !ok {
		return "", false
	}
	id, ok = strings.CutSuffix(rest, p.after)
	return id, ok && id != ""
}
