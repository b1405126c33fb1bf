package demo

import (
	"strings"
	"testing"
	"time"
)

// rows plays what a terminal shows: text, "up n rows" and "clear to the end".
func rows(t *testing.T, written string) []string {
	t.Helper()
	lines, at := []string{""}, 0
	written = strings.NewReplacer(escNoWrap, "", escWrap, "", escBold, "", escRegular, "").Replace(written)
	for written != "" {
		switch {
		case strings.HasPrefix(written, escClear):
			lines = lines[:at+1]
			lines[at] = ""
			written = written[len(escClear):]
		case strings.HasPrefix(written, "\x1b["):
			n := 0
			for written = written[2:]; written[0] != 'A'; written = written[1:] {
				n = n*10 + int(written[0]-'0')
			}
			at -= n
			written = written[1:]
		case written[0] == '\r':
			written = written[1:]
		case written[0] == '\n':
			if at++; at == len(lines) {
				lines = append(lines, "")
			}
			written = written[1:]
		default:
			lines[at] += written[:1]
			written = written[1:]
		}
		if at < 0 {
			t.Fatal("the cursor is above the first row")
		}
	}
	return lines[:len(lines)-1]
}

func TestStatusStaysBelowTheEvents(t *testing.T) {
	var out strings.Builder
	s := &screen{w: &out, terminal: true, now: func() time.Duration { return 1500 * time.Millisecond }}
	want := func(lines ...string) {
		t.Helper()
		if got := rows(t, out.String()); strings.Join(got, "|") != strings.Join(lines, "|") {
			t.Errorf("the terminal shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
		}
	}
	s.event("one")
	s.status([]string{"a", "b", "c"}, "line")
	want("  1.5s  one", "a", "b", "c")
	s.event("two\nmore")
	want("  1.5s  one", "  1.5s  two", "        more", "a", "b", "c")
	s.status([]string{"d"}, "line")
	want("  1.5s  one", "  1.5s  two", "        more", "d")
	s.print("end\n")
	want("  1.5s  one", "  1.5s  two", "        more", "end")
}

func TestWithoutATerminalThereAreLinesAlone(t *testing.T) {
	var out strings.Builder
	s := newScreen(&out, func() time.Duration { return 12 * time.Second })
	s.event("one")
	s.status([]string{"a", "b"}, "line")
	s.clear()
	if got := out.String(); got != " 12.0s  one\n 12.0s  line\n" {
		t.Errorf("it writes %q", got)
	}
}
