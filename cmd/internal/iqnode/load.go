package iqnode

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/iqgate/iqgate/cmd/internal/memory"
)

// given is a value of a setting and where it came from.
type given struct {
	name, text string
	origin     string // --name, IQNODE_NAME, or the file with its line; empty for the default
	secret     bool   // the text is left out
}

// label says which value is meant, in messages.
func (g given) label() string {
	if g.origin == "" {
		return g.name
	}
	return g.origin
}

// faultsError is everything that is wrong with the configuration.
type faultsError struct{ faults []string }

func (e *faultsError) Error() string {
	if len(e.faults) == 1 {
		return "bad configuration: " + e.faults[0]
	}
	return "bad configuration:\n  " + strings.Join(e.faults, "\n  ")
}

// load takes the settings from flags, then the environment, then the file that --config or IQNODE_CONFIG names, then the
// defaults. Its error has every fault, or is flag.ErrHelp.
func load(args, env []string) (*settings, error) {
	s := &settings{}
	var faults []string
	table := allSettings()
	byName := make(map[string]*setting, len(table))
	for i := range table {
		byName[table[i].name] = &table[i]
	}
	flags, file, err := parseFlags(args, table, s)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, &faultsError{[]string{err.Error()}}
	}
	vars := variables(env)
	s.strangers = strangers(vars, table)
	if file == "" {
		file = vars[envPrefix+"CONFIG"]
	}
	var inFile fileSettings
	if file != "" {
		inFile = readFile(file, byName)
		faults = append(faults, inFile.faults...)
	}
	broken := make(map[string]bool) // fields of node.Config about which enough is said
	for i := range table {
		o := &table[i]
		g := given{name: o.name, text: o.def}
		if v, ok := vars[o.env()]; o.secret && ok {
			if err := o.take(s, v); err != nil {
				faults = append(faults, o.env()+": "+err.Error())
			}
			s.given = append(s.given, given{name: o.name, origin: o.env(), secret: true})
			continue
		} else if v, ok := flags[o.name]; ok {
			g = given{name: o.name, text: v, origin: "--" + o.name}
		} else if v, ok := vars[o.env()]; ok {
			g = given{name: o.name, text: v, origin: o.env()}
		} else if v, ok := inFile.values[o.name]; ok {
			g = v
		} else if inFile.unread || inFile.broken[o.name] {
			broken[o.field] = true
		}
		s.given = append(s.given, g)
		if g.text == "" && g.origin == "" {
			continue // no default; node.Config says whether it is required
		}
		if err := o.take(s, g.text); err != nil {
			faults = append(faults, fault(g, err))
			broken[o.field] = true
		}
	}
	if s.crash, err = parseCrashPlan(vars[crashVariable]); err != nil {
		faults = append(faults, err.Error())
	}
	if s.version { // asked for alone, most often
		return s, nil
	}
	faults = append(faults, nodeFaults(s, table, broken)...)
	if len(faults) > 0 {
		return nil, &faultsError{faults}
	}
	return s, nil
}

// fault says what is wrong with a value; the faults of a whole file stand below its name.
func fault(g given, err error) string {
	text := err.Error()
	sep := ": "
	if strings.Contains(text, "\n") {
		sep, text = ":\n    ", strings.ReplaceAll(text, "\n", "\n    ")
	}
	return g.label() + " " + strconv.Quote(g.text) + sep + text
}

// nodeFaults is what node.Config has against the settings, in their names, without those that are reported already.
func nodeFaults(s *settings, table []setting, broken map[string]bool) []string {
	err := s.node.Validate()
	if err == nil {
		return nil
	}
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = joined.Unwrap()
	}
	names := make(map[string]string, len(table))
	for _, o := range table {
		if o.field != "" {
			names[o.field] = o.name
		}
	}
	var faults []string
	for _, err := range errs {
		text := strings.TrimPrefix(err.Error(), "node: ")
		field, _, _ := strings.Cut(text, " ")
		if broken[field] {
			continue
		}
		faults = append(faults, fieldName.ReplaceAllStringFunc(text, func(word string) string {
			if name, ok := names[word]; ok {
				return name
			}
			return word
		}))
	}
	return faults
}

// fieldName matches what may be a field of node.Config in its messages.
var fieldName = regexp.MustCompile(`\b[A-Z][A-Za-z]+\b`)

// parseFlags gives the flags' texts by name, and the file of --config. Only the command line's own form is checked here.
func parseFlags(args []string, table []setting, s *settings) (texts map[string]string, file string, err error) {
	texts = make(map[string]string)
	fs := flag.NewFlagSet("iqnode", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	for _, o := range table {
		if o.secret {
			continue
		}
		take := func(text string) error { texts[o.name] = text; return nil }
		if o.value == "" {
			fs.BoolFunc(o.name, o.help, take)
		} else {
			fs.Func(o.name, o.help, take)
		}
	}
	fs.StringVar(&file, "config", "", "")
	fs.BoolVar(&s.printConfig, "print-config", false, "")
	fs.BoolVar(&s.version, "version", false, "")
	if err := fs.Parse(args); err != nil {
		return nil, "", err
	}
	if fs.NArg() > 0 {
		return nil, "", fmt.Errorf("argument %q is one too many: there are only flags", fs.Arg(0))
	}
	return texts, file, nil
}

// variables are the environment's IQNODE_*.
func variables(env []string) map[string]string {
	vars := make(map[string]string)
	for _, line := range env {
		if name, value, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, envPrefix) {
			vars[name] = value
		}
	}
	return vars
}

// strangers are the variables that are no setting. They are no fault: Kubernetes makes such for a service named iqnode.
func strangers(vars map[string]string, table []setting) []string {
	known := []string{crashVariable, envPrefix + "CONFIG"}
	for _, o := range table {
		known = append(known, o.env())
	}
	var names []string
	for name := range vars {
		if !slices.Contains(known, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// printUsage prints the help: every setting with its default.
func printUsage(w io.Writer) {
	var b strings.Builder
	b.WriteString(`iqnode runs an application's tasks with exactly-once, keeps copies of its stores, and answers reads of them.

usage: iqnode --node-id NAME --topology FILE --brokers HOST:PORT,... --state-dir DIR [flags]
       iqnode --node-id NAME --replica FILE --brokers HOST:PORT,... --state-dir DIR [flags]

Every flag can be set in the environment too, as IQNODE_NODE_ID and so on, and in a YAML file (node-id: a). A flag
wins over the environment, and that over the file.

`)
	line := func(name, value, help, def string) {
		head := strings.TrimSpace("--" + name + " " + value)
		if def != "" {
			help += " (" + def + ")"
		}
		fmt.Fprintf(&b, "  %-33s %s\n", head, help)
	}
	line("config", "FILE", "read settings from a YAML file", "")
	for _, o := range allSettings() {
		if o.secret {
			fmt.Fprintf(&b, "  %-33s %s (in the environment only)\n", o.env(), o.help)
			continue
		}
		line(o.name, o.value, o.help, o.def)
	}
	line("print-config", "", "print every setting with its origin, and exit", "")
	line("version", "", "print the version, and exit", "")
	b.WriteString(`
exit codes: 0 stopped as asked, 1 an error, 2 bad configuration, 3 another process runs with the same node id
signals: SIGTERM and SIGINT stop in order, a second one at once
memory: ` + memory.Help + `
`)
	_, _ = io.WriteString(w, b.String())
}

// printConfig prints the settings as a file that --config takes, each with its origin.
func printConfig(w io.Writer, s *settings) {
	for _, g := range s.given {
		origin := "default"
		if g.origin != "" {
			origin = g.origin
		}
		if g.secret {
			_, _ = fmt.Fprintf(w, "# %s: not shown, from %s\n", g.name, g.origin)
			continue
		}
		if g.text == "" && g.origin == "" {
			_, _ = fmt.Fprintf(w, "# %s: not set\n", g.name)
			continue
		}
		_, _ = fmt.Fprintf(w, "%-40s # %s\n", g.name+": "+yamlScalar(g.text), origin)
	}
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
