package config

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/iqgate/iqgate/cmd/internal/build"
)

// A Program is what a program declares of its settings.
type Program struct {
	Name   string   // of the executable
	About  string   // begins the help: what the program does, and how it is called
	After  string   // ends the help: exit codes and the like
	Groups []Group  // all settings, in the order of the help
	Others []string // environment variables with the program's prefix that are no settings and yet known
	// Check says what is wrong with the settings together, after all have been taken: errors joined, each beginning with the field
	// that it is about, perhaps after "package: ". It is not asked about fields whose value could not be read. Nil checks nothing.
	Check func() error
}

// A Group is settings that belong together.
type Group struct {
	Title    string
	Settings []Setting
}

// A Value is what a setting has, and where that came from.
type Value struct {
	Setting *Setting
	Text    string // as a flag would have it; empty for a secret
	Origin  string // --name, PROGRAM_NAME, or the file with its line; empty for the default
}

// Loaded is what Load found.
type Loaded struct {
	// Answer is what the command line asked to be printed in place of a run: the help, the version, the values, the schema. Empty
	// for a run.
	Answer string
	// Values are those of all settings, in their order.
	Values []Value
	// Strangers are environment variables with the program's prefix that are no setting, with what was perhaps meant. They are no
	// fault: Kubernetes makes such for a service of the program's name.
	Strangers []string
}

// FaultsError is everything that is wrong with a configuration.
type FaultsError struct{ Faults []string }

// Error has a line for each fault.
func (e *FaultsError) Error() string {
	if len(e.Faults) == 1 {
		return "bad configuration: " + e.Faults[0]
	}
	return "bad configuration:\n  " + strings.Join(e.Faults, "\n  ")
}

// Load takes each setting from the flags in args, else from env, else from the file that --config or PROGRAM_CONFIG names, else
// its default. args are the arguments without the program's name, env is as os.Environ gives it. The error is a *FaultsError
// with every fault. Who asks for the help, the version, the schema or the reference gets that whatever else is wrong.
func (p *Program) Load(args, env []string) (*Loaded, error) {
	line := p.parseArgs(args)
	switch line.ask {
	case askHelp:
		return &Loaded{Answer: p.help()}, nil
	case askVersion:
		return &Loaded{Answer: build.Version(p.Name) + "\n"}, nil
	case askSchema:
		return &Loaded{Answer: p.Schema()}, nil
	case askDoc:
		return &Loaded{Answer: p.Markdown()}, nil
	}
	l, err := p.resolve(line, env)
	if err == nil && line.ask == askPrint {
		l.Answer = l.Print()
	}
	return l, err
}

// Resolve does the same for a program that reads its command line itself; flags are the texts that it found, by name.
func (p *Program) Resolve(flags map[string]string, env []string) (*Loaded, error) {
	return p.resolve(commandLine{texts: flags}, env)
}

// resolve takes the values and checks them.
func (p *Program) resolve(line commandLine, env []string) (*Loaded, error) {
	vars := variables(env, p.prefix())
	l := &Loaded{Strangers: p.strangers(vars)}
	faults := line.faults
	file, named := line.config, "--config"
	if file == "" {
		file, named = vars[p.prefix()+"CONFIG"], p.prefix()+"CONFIG"
	}
	inFile := fileSettings{unread: line.unread}
	if file != "" {
		inFile = p.readFile(file, named)
		faults = append(faults, inFile.faults...)
	}
	broken := make(map[string]bool) // fields about which enough is said
	for s := range p.all() {
		v := Value{Setting: s, Text: s.Default}
		if text, ok := line.texts[s.Name]; ok {
			v.Text, v.Origin = text, "--"+s.Name
		} else if text, ok := vars[p.Variable(s)]; ok {
			v.Text, v.Origin = text, p.Variable(s)
		} else if given, ok := inFile.values[s.Name]; ok {
			v = given
		} else if inFile.unread || inFile.broken[s.Name] || line.broken[s.Name] {
			broken[s.Field] = true
		}
		if v.Text != "" || v.Origin != "" { // without a default Check says whether it is required
			if err := s.Set(v.Text); err != nil {
				faults = append(faults, fault(v, err))
				broken[s.Field] = true
			}
		}
		if s.Kind == KindSecret {
			v.Text = ""
		}
		l.Values = append(l.Values, v)
	}
	faults = append(faults, p.checked(l.Values, broken)...)
	if len(faults) > 0 {
		return nil, &FaultsError{faults}
	}
	return l, nil
}

// fault says what is wrong with a value; the faults of a whole file stand below its name.
func fault(v Value, err error) string {
	text := err.Error()
	if v.Setting.Kind == KindSecret {
		return v.Origin + ": " + text
	}
	sep := ": "
	if strings.Contains(text, "\n") {
		sep, text = ":\n    ", strings.ReplaceAll(text, "\n", "\n    ")
	}
	return v.label() + " " + strconv.Quote(v.Text) + sep + text
}

// label says which value is meant, in messages.
func (v Value) label() string {
	if v.Origin == "" {
		return v.Setting.Name
	}
	return v.Origin
}

// fieldName matches what may be a field in the messages of Check.
var fieldName = regexp.MustCompile(`\b[A-Z][A-Za-z]+\b`)

// checked is what Check has against the settings, in their names, without what is about a field that is broken already.
func (p *Program) checked(values []Value, broken map[string]bool) (faults []string) {
	if p.Check == nil {
		return nil
	}
	fields := make(map[string]Value, len(values))
	for _, v := range values {
		if v.Setting.Field != "" {
			fields[v.Setting.Field] = v
		}
	}
	for _, err := range leaves(p.Check()) {
		text := err.Error()
		if pkg, rest, ok := strings.Cut(text, ": "); ok && strings.ToLower(pkg) == pkg && !strings.ContainsAny(pkg, " -") {
			text = rest // the package that found it
		}
		first, isBroken := true, false
		text = fieldName.ReplaceAllStringFunc(text, func(word string) string {
			v, ok := fields[word]
			if !ok {
				return word
			}
			isBroken = isBroken || broken[word]
			if first && strings.HasPrefix(text, word) {
				first = false
				return v.label()
			}
			return v.Setting.Name
		})
		if !isBroken {
			faults = append(faults, text)
		}
	}
	return faults
}

// leaves are the errors that were joined.
func leaves(err error) (all []error) {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		all = append(all, leaves(e)...)
	}
	return all
}

// all goes through the settings, in their order.
func (p *Program) all() func(yield func(*Setting) bool) {
	return func(yield func(*Setting) bool) {
		for g := range p.Groups {
			for i := range p.Groups[g].Settings {
				if !yield(&p.Groups[g].Settings[i]) {
					return
				}
			}
		}
	}
}

// setting is the one of a name; nil when there is none.
func (p *Program) setting(name string) *Setting {
	for s := range p.all() {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// names are those of the settings that fit.
func (p *Program) names(fits func(*Setting) bool) (names []string) {
	for s := range p.all() {
		if fits(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

// prefix begins the program's environment variables.
func (p *Program) prefix() string { return strings.ToUpper(p.Name) + "_" }

// Variable is the setting's environment variable.
func (p *Program) Variable(s *Setting) string {
	return p.prefix() + strings.ReplaceAll(strings.ToUpper(s.Name), "-", "_")
}

// insteadOf says how a secret is given.
func (p *Program) insteadOf(s *Setting) string {
	text := "give it in the environment, as " + p.Variable(s)
	if p.setting(s.Name+"-file") != nil {
		text += ", or a file as " + s.Name + "-file"
	}
	return text
}

// variables are those of the environment that begin with prefix.
func variables(env []string, prefix string) map[string]string {
	vars := make(map[string]string)
	for _, line := range env {
		if name, value, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, prefix) {
			vars[name] = value
		}
	}
	return vars
}

func (p *Program) strangers(vars map[string]string) (names []string) {
	known := append([]string{p.prefix() + "CONFIG"}, p.Others...)
	for s := range p.all() {
		known = append(known, p.Variable(s))
	}
	for name := range vars {
		if !slices.Contains(known, name) {
			names = append(names, name+suggest(name, known))
		}
	}
	slices.Sort(names)
	return names
}

// IsFault says whether an error is about the configuration.
func IsFault(err error) bool {
	_, ok := errors.AsType[*FaultsError](err)
	return ok
}
