package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFileBytes is the largest file of settings, and the largest file that a setting names and this package reads.
const maxFileBytes = 1 << 20

// fileSettings is what a file sets, and what is wrong with it.
type fileSettings struct {
	values map[string]Value
	faults []string
	broken map[string]bool // names that the file sets to something that is no value
	unread bool            // the file is not readable as a whole, so it may have set anything
}

// readFile reads the settings of a YAML file, a flat mapping of names to values; named says where the file's name came from. It
// is strict: every unknown, repeated or unfit entry is a fault.
func (p *Program) readFile(file, named string) fileSettings {
	s := fileSettings{values: make(map[string]Value), broken: make(map[string]bool)}
	bad := func(line int, format string, args ...any) {
		where := file
		if line > 0 {
			where += " line " + strconv.Itoa(line)
		}
		s.faults = append(s.faults, where+": "+fmt.Sprintf(format, args...))
	}
	data, err := readAll(file)
	if err != nil {
		s.faults, s.unread = []string{named + " " + strconv.Quote(file) + ": " + err.Error()}, true
		return s
	}
	var doc, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return s // an empty file sets nothing
	case err != nil:
		bad(0, "no YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		s.unread = true
		return s
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		bad(more.Line, "a second document; there must be one")
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return s
	}
	if root.Kind != yaml.MappingNode {
		bad(root.Line, "must be settings, one a line, as name: value")
		s.unread = true
		return s
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		o := p.setting(key.Value)
		switch {
		case o == nil:
			bad(key.Line, "%s: is no setting%s", key.Value, suggest(key.Value, p.names(func(s *Setting) bool { return s.Kind != KindSecret })))
			continue
		case o.Kind == KindSecret:
			bad(key.Line, "%s: is a secret, which has no place in this file; %s", o.Name, p.insteadOf(o))
			continue
		}
		if old, ok := s.values[o.Name]; ok {
			bad(key.Line, "%s: is set already, see %s", o.Name, old.Origin)
			continue
		}
		text, why := scalarText(value, o.Kind == KindList)
		if why != "" {
			bad(value.Line, "%s: %s", o.Name, why)
			s.broken[o.Name] = true
			continue
		}
		s.values[o.Name] = Value{Setting: o, Text: text, Origin: fmt.Sprintf("%s line %d: %s", file, key.Line, o.Name)}
	}
	return s
}

// scalarText is a value as a flag would have it: a list is joined with commas.
func scalarText(n *yaml.Node, list bool) (text, why string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "", "has no value"
		}
		return n.Value, ""
	case yaml.SequenceNode:
		if !list {
			return "", "must be one value, not a list"
		}
		var items []string
		for _, item := range n.Content {
			text, why := scalarText(item, false)
			if why != "" {
				return "", "item " + strconv.Itoa(len(items)+1) + ": " + why
			}
			items = append(items, text)
		}
		if len(items) == 0 {
			return "", "the list is empty"
		}
		return strings.Join(items, ","), ""
	case yaml.MappingNode, yaml.DocumentNode, yaml.AliasNode:
	}
	return "", "must be one value"
}

// plainScalar matches text that YAML takes as it is.
var plainScalar = regexp.MustCompile(`^-?[A-Za-z0-9/.][A-Za-z0-9/._:,-]*$`)

// yamlScalar writes text so that YAML reads the same text.
func yamlScalar(text string) string {
	if plainScalar.MatchString(text) && !strings.HasSuffix(text, ":") {
		return text
	}
	return strconv.Quote(text)
}

// readAll is os.ReadFile with a bound.
func readAll(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, unwrapPath(err)
	}
	defer f.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, unwrapPath(err)
	case len(data) > maxFileBytes:
		return nil, fmt.Errorf("has more than %d bytes", maxFileBytes)
	}
	return data, nil
}
