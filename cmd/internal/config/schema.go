package config

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
)

// draft is the form of JSON schema that Schema writes.
const draft = "https://json-schema.org/draft/2020-12/schema"

// object is a part of a JSON schema; encoding/json sorts its names.
type object map[string]any

// Schema is a JSON schema of the YAML file, for editors that check it while it is written. What Program.Check refuses it cannot know.
func (p *Program) Schema() string {
	properties := object{}
	for s := range p.all() {
		if s.Kind != KindSecret {
			properties[s.Name] = s.schema()
		}
	}
	text, err := json.MarshalIndent(object{
		"$schema": draft, "title": "settings of " + p.Name, "type": "object", "properties": properties, "additionalProperties": false,
	}, "", "  ")
	if err != nil {
		panic(err) // of maps and texts alone
	}
	return string(text) + "\n"
}

// Patterns of what a file may have for a duration and for a size in units.
const (
	durationPattern = `^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+$`
	sizePattern     = `^[0-9]+(\.[0-9]+)? ?([KMGT]iB|[kMGT]B|B)$`
)

// schema describes the setting's values.
func (s *Setting) schema() object {
	o := object{"description": s.describe()}
	switch s.Kind {
	case KindList:
		o["anyOf"] = []object{{"type": "array", "items": object{"type": "string"}, "minItems": 1}, {"type": "string"}}
	case KindNumber:
		s.bounds(o)
	case KindDuration:
		o["type"], o["pattern"] = "string", durationPattern
	case KindSize:
		number := object{}
		s.bounds(number)
		o["anyOf"] = []object{number, {"type": "string", "pattern": sizePattern}}
	case KindSwitch:
		o["type"] = "boolean"
	case KindChoice:
		o["enum"] = s.Choices
	case KindText, KindFile, KindSecret:
		o["type"] = "string"
	}
	if v := s.schemaDefault(); v != nil {
		o["default"] = v
	}
	return o
}

// bounds writes the limits of a whole number into o.
func (s *Setting) bounds(o object) {
	within := object{"type": "integer", "minimum": s.least}
	if s.most != 0 {
		within["maximum"] = s.most
	}
	if s.other == "" {
		maps.Copy(o, within)
		return
	}
	other, _ := s.parse(s.other)
	o["anyOf"] = []object{within, {"const": other}}
}

// schemaDefault is the default as JSON has it; nil for none.
func (s *Setting) schemaDefault() any {
	switch {
	case s.Default == "":
		return nil
	case s.Kind == KindSwitch:
		return s.Default == "true"
	case s.Kind == KindNumber:
		n, _ := strconv.ParseInt(s.Default, 10, 64)
		return n
	}
	return s.Default
}

// describe is the help with the limits and the rule.
func (s *Setting) describe() string {
	text := s.Help
	if limit := s.limits(); limit != "" {
		text += "; " + limit
	}
	return text
}

// limits joins Limit and Rule.
func (s *Setting) limits() string {
	var parts []string
	for _, part := range []string{s.Limit(), s.Rule} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "; ")
}
