package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// load reads the settings: flags over environment over file. The error is a *faultsError with every fault, or
// flag.ErrHelp when help was asked for. Asked for the version, nothing else matters.
func load(args, env []string) (*settings, error) {
	s := &settings{}
	fs := s.flags()
	texts, err := s.parse(fs, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil, err
	case err != nil:
		return nil, &faultsError{[]error{err}}
	case s.version:
		return s, nil
	}
	given := map[string]string{}
	var errs []error
	for _, t := range texts {
		errs = append(errs, take(fs, given, t.name, "--"+t.name, t.text))
	}
	errs = append(errs, s.fromEnv(fs, env, given)...)
	if s.config != "" {
		errs = append(errs, s.fromFile(fs, given)...)
	}
	errs = append(errs, s.faults(given, errs)...)
	if errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil }); len(errs) > 0 {
		return nil, &faultsError{errs}
	}
	return s, nil
}

// faultsError is everything that is wrong with the configuration.
type faultsError struct{ faults []error }

func (e *faultsError) Error() string {
	var b strings.Builder
	b.WriteString("bad configuration:")
	for _, fault := range e.faults {
		if len(e.faults) > 1 {
			b.WriteString("\n ")
		}
		b.WriteString(" " + fault.Error())
	}
	return b.String()
}

// settingError is a value that its setting cannot have.
type settingError struct {
	name  string
	label string // the setting and where the value came from: --name, IQROUTER_NAME, or the file with its line
	text  string
	err   error
}

func (e *settingError) Error() string {
	if strings.Contains(e.err.Error(), strconv.Quote(e.text)) {
		return fmt.Sprintf("%s: %v", e.label, e.err)
	}
	return fmt.Sprintf("%s: %q %v", e.label, e.text, e.err)
}

func (e *settingError) Unwrap() error { return e.err }

// flagText is a flag as given.
type flagText struct{ name, text string }

// parse gives the flags' texts, in order. Only the command line's own form is checked here, so that take can go on after
// the first bad value.
func (s *settings) parse(fs *flag.FlagSet, args []string) (texts []flagText, err error) {
	line := flag.NewFlagSet(fs.Name(), flag.ContinueOnError)
	line.SetOutput(io.Discard)
	line.Usage = func() {}
	line.BoolVar(&s.version, "version", false, "")
	fs.VisitAll(func(f *flag.Flag) {
		note := func(text string) error { texts = append(texts, flagText{f.Name, text}); return nil }
		if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
			line.BoolFunc(f.Name, "", note)
		} else {
			line.Func(f.Name, "", note)
		}
	})
	if err := line.Parse(args); err != nil {
		return nil, err
	}
	if line.NArg() > 0 {
		return nil, fmt.Errorf("argument %q is no setting", line.Arg(0))
	}
	return texts, nil
}

// take sets a setting and notes where its value came from; a bad value is a *settingError.
func take(fs *flag.FlagSet, given map[string]string, name, label, text string) error {
	given[name] = label
	err := fs.Set(name, text)
	switch {
	case err == nil && name == "listen" && text == "": // router.Config would take its default
		err = errors.New("must be host:port")
	case err == nil:
		return nil
	}
	if getter, ok := fs.Lookup(name).Value.(flag.Getter); ok { // whose own errors speak of parsing
		switch getter.Get().(type) {
		case time.Duration:
			err = errors.New("must be a duration such as 500ms or 2s")
		case int:
			err = errors.New("must be a whole number")
		case bool:
			err = errors.New("must be true or false")
		case *slog.Level:
			err = errors.New("must be debug, info, warn or error")
		}
	}
	return &settingError{name: name, label: label, text: text, err: err}
}

// faults is what router.Config has against the settings, in their names, without those that are reported already.
func (s *settings) faults(given map[string]string, reported []error) (errs []error) {
	err := s.router.Validate()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, fault := range joined.Unwrap() {
		field, what, _ := strings.Cut(fault.Error(), ":")
		name := flagName(field)
		if slices.ContainsFunc(reported, func(err error) bool {
			known, ok := errors.AsType[*settingError](err)
			return ok && known.name == name
		}) {
			continue
		}
		label := given[name]
		if label == "" {
			label = "--" + name
		}
		errs = append(errs, errors.New(label+":"+strings.ReplaceAll(what, "at most NodeTimeout", "at most --node-timeout")))
	}
	return errs
}

// flagName is the flag of a field of router.Config: suspect-after of SuspectAfter.
func flagName(field string) string {
	var b strings.Builder
	for i, r := range field {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// fromEnv takes what no flag has set.
func (s *settings) fromEnv(fs *flag.FlagSet, env []string, given map[string]string) (errs []error) {
	for _, variable := range env {
		key, value, _ := strings.Cut(variable, "=")
		rest, ours := strings.CutPrefix(key, envPrefix)
		if !ours {
			continue
		}
		name := strings.ReplaceAll(strings.ToLower(rest), "_", "-")
		switch {
		case fs.Lookup(name) == nil:
			s.strangers = append(s.strangers, key)
		case given[name] == "":
			errs = append(errs, take(fs, given, name, key, value))
		}
	}
	return errs
}

// fromFile takes what neither flag nor environment has set. A name in the file may have - or _ between its words.
func (s *settings) fromFile(fs *flag.FlagSet, given map[string]string) (errs []error) {
	values, err := readFile(s.config)
	if err != nil {
		return []error{err}
	}
	var names []string
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	for key, node := range values {
		name := strings.ReplaceAll(key, "_", "-")
		at := fmt.Sprintf("%s:%d: %s", s.config, node.Line, key)
		switch {
		case name == "config" || !slices.Contains(names, name):
			errs = append(errs, fmt.Errorf("%s: is no setting; settings are %s", at, strings.Join(names, ", ")))
		case node.Kind != yaml.ScalarNode:
			errs = append(errs, fmt.Errorf("%s: must be one value", at))
		case given[name] == "":
			if err := take(fs, given, name, at, node.Value); err != nil {
				errs = append(errs, err)
			}
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

func readFile(path string) (map[string]yaml.Node, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if len(text) > maxConfigBytes {
		return nil, fmt.Errorf("config: %s has more than %d bytes", path, maxConfigBytes)
	}
	values := map[string]yaml.Node{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("config: %s: %w", path, err)
	}
	return values, nil
}
