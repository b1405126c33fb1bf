package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is what the values of a setting look like.
type Kind int

// The kinds of settings.
const (
	KindText     Kind = iota // any text
	KindFile                 // the name of a file, or of a directory
	KindList                 // texts: a list in the file, with commas between them elsewhere
	KindNumber               // a whole number
	KindDuration             // a duration as Go writes it: 100ms, 10s, 1h30m
	KindSize                 // bytes: 65536, 64KiB, 16MiB
	KindSwitch               // true or false; a flag alone is true
	KindChoice               // one of some words
	KindSecret               // a text that is never printed; only the environment has it
)

// A Setting is one thing that can be set: --name as a flag, PROGRAM_NAME in the environment, name in the file. Make one with the
// function of its kind.
type Setting struct {
	Name     string   // words in small letters with - between them
	Field    string   // of the Config struct that Program.Check judges; empty for the program's own
	Kind     Kind     // what its values look like
	Value    string   // stands for a value in the help; empty for a switch
	Default  string   // as a flag would have it; empty for none
	Help     string   // what it is for, in one line
	Choices  []string // of KindChoice
	Rule     string   // what else its value must be, for the documentation: "at most half of session-timeout"
	Required bool     // without a default that would do

	least, most int64 // of a number, nanoseconds or bytes; most 0 is no limit
	other       string
	setOther    func()
	setText     func(text string) error
	setNumber   func(n int64)
}

var errRange = errors.New("is out of range")

// Text is a setting of any text.
func Text(name, field, value, def string, at *string, help string) Setting {
	return Parsed(name, field, value, def, func(text string) error { *at = text; return nil }, help)
}

// Parsed is a text that set reads; its error says what the text must be.
func Parsed(name, field, value, def string, set func(text string) error, help string) Setting {
	return Setting{Name: name, Field: field, Kind: KindText, Value: value, Default: def, Help: help, setText: set}
}

// File names a file.
func File(name, field string, at *string, help string) Setting {
	s := Text(name, field, "FILE", "", at, help)
	s.Kind = KindFile
	return s
}

// FileOf names a file, at most maxFileBytes long, whose contents set takes.
func FileOf(name, field string, set func(data []byte) error, help string) Setting {
	s := Parsed(name, field, "FILE", "", func(file string) error {
		data, err := readAll(file)
		if err != nil {
			return err
		}
		return set(data)
	}, help)
	s.Kind = KindFile
	return s
}

// List is a list of texts, none of them empty.
func List(name, field, value string, at *[]string, help string) Setting {
	s := Parsed(name, field, value+",...", "", func(text string) error {
		var items []string
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item == "" {
				return errors.New("must be " + value + " with commas between them")
			}
			items = append(items, item)
		}
		*at = items
		return nil
	}, help)
	s.Kind = KindList
	return s
}

// Checked has each item of a list judged too.
func (s Setting) Checked(check func(item string) error) Setting {
	set := s.setText
	s.setText = func(text string) error {
		for item := range strings.SplitSeq(text, ",") {
			if err := check(strings.TrimSpace(item)); err != nil {
				return err
			}
		}
		return set(text)
	}
	return s
}

// From gives the setting a default.
func (s Setting) From(def string) Setting {
	s.Default = def
	return s
}

// Choice is one of words, in small or large letters; set gets it as it stands in words.
func Choice(name, field, value, def string, words []string, set func(word string) error, help string) Setting {
	s := Parsed(name, field, value, def, func(text string) error {
		at := slices.IndexFunc(words, func(word string) bool { return strings.EqualFold(word, text) })
		if at < 0 {
			return errors.New("must be " + either(words))
		}
		return set(words[at])
	}, help)
	s.Kind, s.Choices = KindChoice, words
	return s
}

// Switch is true or false, false by default.
func Switch(name, field string, at *bool, help string) Setting {
	s := Parsed(name, field, "", "false", func(text string) error {
		v, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("must be true or false")
		}
		*at = v
		return nil
	}, help)
	s.Kind = KindSwitch
	return s
}

// Secret is a text that only the environment has and nothing prints.
func Secret[T ~string](name string, at *T, help string) Setting {
	s := Parsed(name, "", "", "", func(text string) error { *at = T(text); return nil }, help)
	s.Kind = KindSecret
	return s
}

// Number is a whole number from least to most; with most 0 there is no upper limit.
func Number[T int | int16 | int64](name, field string, at *T, def string, least, most T, help string) Setting {
	return Setting{
		Name: name, Field: field, Kind: KindNumber, Value: "N", Default: def, Help: help, least: int64(least), most: int64(most),
		setNumber: func(n int64) { *at = T(n) },
	}
}

// Duration is a duration from least to most. With least 0 it must be more than 0; with most 0 there is no upper limit.
func Duration(name, field string, at *time.Duration, def string, least, most time.Duration, help string) Setting {
	return Setting{
		Name: name, Field: field, Kind: KindDuration, Value: "DURATION", Default: def, Help: help,
		least: max(int64(least), 1), most: int64(most), setNumber: func(n int64) { *at = time.Duration(n) },
	}
}

// Size is a number of bytes, at least least.
func Size[T int | int64](name, field string, at *T, def string, least T, help string) Setting {
	return Setting{
		Name: name, Field: field, Kind: KindSize, Value: "SIZE", Default: def, Help: help, least: int64(least),
		setNumber: func(n int64) { *at = T(n) },
	}
}

// Or allows one number outside of the limits too; set takes it.
func (s Setting) Or(other string, set func()) Setting {
	s.other, s.setOther = other, set
	return s
}

// Must says what else the value must be, for the documentation; Program.Check is what refuses other values.
func (s Setting) Must(rule string) Setting {
	s.Rule = rule
	return s
}

// Require says that the setting has to be given; Program.Check is what refuses that it is not.
func (s Setting) Require() Setting {
	s.Required = true
	return s
}

// Set sets the setting to a value that somebody gave, or that is the default. Its error says what the value must be.
func (s *Setting) Set(text string) error {
	if text == "" {
		return errors.New("is empty; leave it out for the default")
	}
	if s.setText != nil {
		return s.setText(text)
	}
	n, err := s.parse(text)
	if s.other != "" && err == nil {
		if other, _ := s.parse(s.other); n == other {
			s.setOther()
			return nil
		}
	}
	switch {
	case err != nil:
		return err
	case n < s.least || s.most != 0 && n > s.most:
		return errors.New("must be " + s.Limit())
	}
	s.setNumber(n)
	return nil
}

// parse reads a number, a duration or a size.
func (s *Setting) parse(text string) (int64, error) {
	switch s.Kind {
	case KindDuration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, errors.New("must be a duration such as 100ms or 10s")
		}
		return int64(d), nil
	case KindSize:
		return parseSize(text)
	case KindText, KindFile, KindList, KindNumber, KindSwitch, KindChoice, KindSecret:
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errRange
	case err != nil:
		return 0, errors.New("must be a whole number")
	}
	return n, nil
}

// Limit says which numbers, durations or sizes are allowed: "1 to 1000, or -1". Empty for other kinds.
func (s *Setting) Limit() string {
	if s.setNumber == nil {
		return ""
	}
	least := s.least
	other, _ := s.parse(s.other)
	if s.other != "" && other == least-1 {
		least = other
	}
	text := "at least " + s.bound(least)
	switch {
	case s.most != 0:
		text = s.bound(least) + " to " + s.bound(s.most)
	case s.Kind == KindDuration && s.least == 1:
		text = "more than 0s"
	}
	if s.other != "" && other != least {
		text += ", or " + s.other
	}
	return text
}

// bound writes a limit as the setting's values are written.
func (s *Setting) bound(n int64) string {
	switch s.Kind {
	case KindDuration:
		return short(time.Duration(n))
	case KindSize:
		return formatSize(n)
	case KindText, KindFile, KindList, KindNumber, KindSwitch, KindChoice, KindSecret:
	}
	return strconv.FormatInt(n, 10)
}

// short is a duration without the units that say nothing: 10m, not 10m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// either joins words as alternatives: a, b or c.
func either(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// unwrapPath drops what the message about the setting says already: the operation and the file's name.
func unwrapPath(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err
	}
	return err
}

// String names the kind in the documentation.
func (k Kind) String() string {
	names := [...]string{"text", "file", "list", "number", "duration", "size", "switch", "choice", "secret"}
	if k < 0 || int(k) >= len(names) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return names[k]
}
