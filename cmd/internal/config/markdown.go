package config

import (
	"fmt"
	"strings"
)

// Markdown is the reference of all settings: for each group a table with name, kind, default, limits and help.
func (p *Program) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Each name is a flag (`--name`), a variable (`%sNAME`, with `_` for `-`) and a name in the YAML file.\n", p.prefix())
	for _, g := range p.Groups {
		fmt.Fprintf(&b, "\n### %s: %s\n\n| setting | value | default | must be | for what |\n| --- | --- | --- | --- | --- |\n", p.Name, g.Title)
		for _, s := range g.Settings {
			name, def := code(s.Name), code(s.Default)
			switch {
			case s.Kind == KindSecret:
				name = code(p.Variable(&s))
			case s.Required:
				def = "required"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, s.Kind, def, cell(s.limits()), cell(s.Help))
		}
	}
	return b.String()
}

// code shows text as it is typed.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// cell keeps a text within its cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
