package main

import (
	"fmt"
	"io"
	"strings"
)

// barWidth is how many letters a bar of progress has.
const barWidth = 24

// A progress shows on a terminal how far long work is, in one line below all that was printed. A nil one shows nothing.
type progress struct {
	w     io.Writer
	shown string
}

// newProgress shows on the terminal where errors go; where that is none there is nothing to see.
func (a *app) newProgress() *progress {
	if !a.progress || a.json() {
		return nil
	}
	return &progress{w: a.errs}
}

// show says how much of all is done, and what is being done.
func (p *progress) show(done, all int, what string) {
	if p == nil {
		return
	}
	line := bar(done, all) + " " + what
	if line != p.shown {
		_, _ = fmt.Fprintf(p.w, "\r\x1b[?7l%s\x1b[K\x1b[?7h", line) // a line that is too long is cut at the edge
		p.shown = line
	}
}

// clear takes the line away.
func (p *progress) clear() {
	if p != nil && p.shown != "" {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
		p.shown = ""
	}
}

// bar is a bar with the numbers beside it: [########--------] 2/4.
func bar(done, all int) string {
	full := barWidth
	if all > 0 {
		full = min(max(done, 0)*barWidth/all, barWidth)
	}
	return fmt.Sprintf("[%s%s] %d/%d", strings.Repeat("#", full), strings.Repeat("-", barWidth-full), done, all)
}
