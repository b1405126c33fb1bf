package config

import (
	"fmt"
	"strings"
)

// A Generated is a part of the documentation that a program's settings write.
type Generated struct {
	File    string // within docs
	Command string // what "program config" prints for it: schema or doc
	Mark    string // names the part of the file between two comments; empty for all of the file
}

// GeneratedOf are the parts that the settings of a program write.
func GeneratedOf(program string) []Generated {
	return []Generated{
		{File: program + ".schema.json", Command: askSchema},
		{File: "config.md", Command: askDoc, Mark: program},
	}
}

// Into puts text in the place of the part in the file's old contents.
func (g Generated) Into(old, text string) (string, error) {
	if g.Mark == "" {
		return text, nil
	}
	begin, end := fmt.Sprintf("<!-- begin %s: make generate writes this -->\n", g.Mark), fmt.Sprintf("<!-- end %s -->\n", g.Mark)
	head, rest, ok := strings.Cut(old, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("%s has no part between %q and %q", g.File, begin, end)
	}
	return head + begin + text + end + tail, nil
}
