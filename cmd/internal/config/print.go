package config

import (
	"fmt"
	"strings"
)

// help is what --help prints: every setting with its default.
func (p *Program) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, `%s
Every flag can be set in the environment too, as %sCONFIG and so on, and in a YAML file (name: value). A flag wins over the
environment, and that over the file.

`, p.About, p.prefix())
	line := func(name, value, help string) {
		fmt.Fprintf(&b, "  %-33s %s\n", strings.TrimSpace("--"+name+" "+value), help)
	}
	line("config", "FILE", "read settings from a YAML file")
	line(askPrint, "", "print every setting with where its value came from, and exit")
	line(askVersion, "", "print the version, and exit")
	for _, g := range p.Groups {
		fmt.Fprintf(&b, "\n%s:\n", g.Title)
		for _, s := range g.Settings {
			switch {
			case s.Kind == KindSecret:
				fmt.Fprintf(&b, "  %-33s %s (in the environment only)\n", p.Variable(&s), s.Help)
			case s.Default == "":
				line(s.Name, s.Value, s.Help)
			default:
				line(s.Name, s.Value, s.Help+" ("+s.Default+")")
			}
		}
	}
	fmt.Fprintf(&b, `
%s config print [flags]   the same as --print-config
%s config schema          print a JSON schema of the YAML file, for editors
%s config doc             print the reference of all settings, as Markdown
%s`, p.Name, p.Name, p.Name, p.After)
	return b.String()
}

// Print writes the values as a file that --config takes, each with where it came from. Secrets are left out.
func (l *Loaded) Print() string {
	var b strings.Builder
	for _, v := range l.Values {
		origin := v.Origin
		if origin == "" {
			origin = "default"
		}
		switch {
		case v.Setting.Kind == KindSecret && v.Origin != "":
			fmt.Fprintf(&b, "# %s: not shown, from %s\n", v.Setting.Name, origin)
		case v.Text == "" && v.Origin == "":
			fmt.Fprintf(&b, "# %s: not set\n", v.Setting.Name)
		default:
			fmt.Fprintf(&b, "%-40s # %s\n", v.Setting.Name+": "+yamlScalar(v.Text), origin)
		}
	}
	return b.String()
}
