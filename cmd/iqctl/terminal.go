package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// A screen is a terminal that a command has for itself: what was on it comes back when it is closed.
type screen struct {
	out   io.Writer
	keys  <-chan string // closed never; who reads it has other reasons to end
	size  func() (width, height int)
	close func()
}

// Escape sequences of terminals.
const (
	escBegin = "\x1b[?1049h\x1b[?25l\x1b[?7l" // another screen, no cursor, no lines longer than it is wide
	escEnd   = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// isTerminal says whether a file is one on which a cursor can be moved.
func isTerminal(f *os.File, getenv func(string) string) bool {
	name := getenv("TERM")
	return name != "" && name != "dumb" && term.IsTerminal(int(f.Fd()))
}

// openScreen takes a terminal over: keys are read as they are typed, and nothing is echoed.
func openScreen(in, out *os.File) (*screen, error) {
	was, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	keys := make(chan string, keyQueue)
	go func() { // until the process ends: nothing ends a read of a terminal
		buffer := make([]byte, 256)
		for {
			n, err := in.Read(buffer)
			for _, key := range splitKeys(string(buffer[:n])) {
				select {
				case keys <- key:
				default: // faster than the screen is drawn
				}
			}
			if err != nil {
				return
			}
		}
	}()
	if _, err := io.WriteString(out, escBegin); err != nil {
		_ = term.Restore(int(in.Fd()), was)
		return nil, err
	}
	return &screen{
		out: out, keys: keys,
		size: func() (int, int) {
			w, h, err := term.GetSize(int(out.Fd()))
			if err != nil || w <= 0 || h <= 0 {
				return 80, 24
			}
			return w, h
		},
		close: func() {
			_, _ = io.WriteString(out, escEnd)
			_ = term.Restore(int(in.Fd()), was)
		},
	}, nil
}
