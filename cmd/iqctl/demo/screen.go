package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// How often the status is shown.
const (
	redrawEvery = 200 * time.Millisecond // in place, on a terminal
	lineEvery   = time.Second            // else one line
)

// Escape sequences of terminals.
const (
	escUp      = "\x1b[%dA"
	escClear   = "\x1b[J"   // from the cursor to the end of the screen
	escNoWrap  = "\x1b[?7l" // lines that are too long end at the edge, so that a block has as many rows as lines
	escWrap    = "\x1b[?7h"
	escBold    = "\x1b[1m"
	escRegular = "\x1b[0m"
)

// A screen shows events, one a line with its time, and below them the status: in place on a terminal, else as one line now
// and then. It is safe for concurrent use.
type screen struct {
	w        io.Writer
	terminal bool
	now      func() time.Duration

	mu struct {
		sync.Mutex
		block []string // the status below the events; empty when none is shown
	}
}

// newScreen looks whether w is a terminal.
func newScreen(w io.Writer, now func() time.Duration) *screen {
	s := &screen{w: w, now: now}
	if f, ok := w.(*os.File); ok && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != "" {
		info, err := f.Stat()
		s.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return s
}

// event shows a line with the time.
func (s *screen) event(text string) {
	stamp := fmt.Sprintf("%5.1fs  ", s.now().Seconds())
	text = stamp + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", len(stamp)))
	s.mu.Lock()
	defer s.mu.Unlock()
	block := s.mu.block
	s.write(s.erase() + text + "\n" + s.draw(block))
}

// status shows the block on a terminal, and the line elsewhere.
func (s *screen) status(block []string, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.terminal {
		s.write(fmt.Sprintf("%5.1fs  %s\n", s.now().Seconds(), line))
		return
	}
	s.write(s.erase() + s.draw(block))
}

// print shows text below all that has been shown; the status is gone.
func (s *screen) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(s.erase() + text)
}

// clear takes the status away.
func (s *screen) clear() { s.print("") }

// draw gives the status as text, and erase what takes it away again.
func (s *screen) draw(block []string) string {
	if len(block) == 0 {
		return ""
	}
	s.mu.block = block
	return escNoWrap + strings.Join(block, "\n") + "\n" + escWrap
}

func (s *screen) erase() string {
	if len(s.mu.block) == 0 {
		return ""
	}
	text := fmt.Sprintf(escUp, len(s.mu.block)) + "\r" + escClear
	s.mu.block = nil
	return text
}

func (s *screen) write(text string) {
	_, _ = io.WriteString(s.w, text) // whoever reads has gone, and the run goes on
}

// bold makes text stand out on a terminal.
func (s *screen) bold(text string) string {
	if !s.terminal {
		return text
	}
	return escBold + text + escRegular
}

// every is the time between two statuses.
func (s *screen) every() time.Duration {
	if s.terminal {
		return redrawEvery
	}
	return lineEvery
}
