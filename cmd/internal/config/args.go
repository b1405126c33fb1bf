package config

import (
	"fmt"
	"strings"
)

// What a command line asks for in place of a run.
const (
	askHelp    = "help"
	askVersion = "version"
	askPrint   = "print-config"
	askSchema  = "schema"
	askDoc     = "doc"
)

// commandLine is what the arguments say.
type commandLine struct {
	texts  map[string]string // of each setting that is given
	config string            // the file with settings
	ask    string            // empty for a run
	faults []string
	broken map[string]bool // settings that are given without a value
	unread bool            // a file was meant, which may have set anything
}

// parseArgs reads flags as --name=value or --name value, with one dash or two; the last of several counts. A switch alone is
// true, and a value that begins with two dashes is given with "=". The words "config print", "config schema" and "config doc" may come first. It goes on after a fault.
func (p *Program) parseArgs(args []string) commandLine {
	c := commandLine{texts: make(map[string]string), broken: make(map[string]bool)}
	if len(args) > 0 && args[0] == "config" {
		args = c.command(args[1:])
	}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		name, text, hasText := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		if !strings.HasPrefix(arg, "-") || name == "" {
			c.fault("argument %q is one too many: there are only flags", arg)
			continue
		}
		value := func() bool { // takes the next argument, unless it is a flag, where the flag has no text of its own
			if !hasText && len(args) > 0 && !strings.HasPrefix(args[0], "--") {
				text, args, hasText = args[0], args[1:], true
			}
			return hasText
		}
		s := p.setting(name)
		switch {
		case name == "h" || name == askHelp:
			c.ask = askHelp
			return c
		case name == askVersion || name == askPrint:
			if c.ask == "" || name == askVersion {
				c.ask = name
			}
			if hasText {
				c.fault("--%s: takes no value", name)
			}
		case name == "config":
			if c.config = text; value() && text != "" {
				c.config = text
			} else {
				c.fault("--config: must name a file")
				c.unread = true
			}
		case s == nil:
			c.fault("--%s: is no setting%s", name, suggest(name, append(p.names(func(s *Setting) bool { return s.Kind != KindSecret }), "config", askPrint)))
			if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				args = args[1:] // the flag's value, most likely
			}
		case s.Kind == KindSecret:
			c.fault("--%s: is a secret, which every process of the machine could read on a command line; %s", name, p.insteadOf(s))
			value()
		case s.Kind == KindSwitch && !hasText:
			c.texts[name] = "true"
		case !value():
			c.fault("--%s: needs a value", name)
			c.broken[name] = true
		default:
			c.texts[name] = text
		}
	}
	return c
}

// command reads what follows the word config.
func (c *commandLine) command(args []string) []string {
	words := map[string]string{"print": askPrint, askSchema: askSchema, askDoc: askDoc}
	if len(args) == 0 || words[args[0]] == "" {
		c.fault("config: must be followed by print, schema or doc")
		return args
	}
	c.ask = words[args[0]]
	return args[1:]
}

func (c *commandLine) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}
