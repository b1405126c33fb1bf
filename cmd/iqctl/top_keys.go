package main

import (
	"strings"
	"unicode/utf8"
)

// Keys of a terminal, as readKeys names them; a letter is itself.
const (
	keyUp       = "up"
	keyDown     = "down"
	keyPageUp   = "page up"
	keyPageDown = "page down"
	keyHome     = "home"
	keyEnd      = "end"
	keyTab      = "tab"
	keyCtrlC    = "ctrl-c"
)

// sequences are what terminals send for keys that are no letters.
var sequences = []struct{ bytes, key string }{
	{"\x1b[A", keyUp},
	{"\x1bOA", keyUp},
	{"\x1b[B", keyDown},
	{"\x1bOB", keyDown},
	{"\x1b[5~", keyPageUp},
	{"\x1b[6~", keyPageDown},
	{"\x1b[H", keyHome},
	{"\x1bOH", keyHome},
	{"\x1b[1~", keyHome},
	{"\x1b[7~", keyHome},
	{"\x1b[F", keyEnd},
	{"\x1bOF", keyEnd},
	{"\x1b[4~", keyEnd},
	{"\x1b[8~", keyEnd},
	{"\t", keyTab},
	{"\x03", keyCtrlC},
}

// splitKeys reads what a terminal sent as keys. Sequences that it does not know, such as those of function keys, are nothing.
func splitKeys(text string) (keys []string) {
next:
	for text != "" {
		for _, s := range sequences {
			if rest, ok := strings.CutPrefix(text, s.bytes); ok {
				keys, text = append(keys, s.key), rest
				continue next
			}
		}
		if text[0] == '\x1b' {
			text = text[sequenceLength(text):]
			continue
		}
		_, size := utf8.DecodeRuneInString(text)
		keys, text = append(keys, text[:size]), text[size:]
	}
	return keys
}

// sequenceLength is how long the escape sequence is with which text begins: up to its final letter or ~.
func sequenceLength(text string) int {
	at := 1
	if at < len(text) && (text[at] == '[' || text[at] == 'O') {
		at++
		for at < len(text) && (text[at] < '@' || text[at] > '~') {
			at++
		}
		at = min(at+1, len(text))
	}
	return at
}

// key does what a key asks for. It says whether top is to end.
func (v *topView) key(key string) (quit bool) {
	at := &v.first
	if v.onNodes {
		at = &v.nodes
	}
	switch key {
	case "q", "Q", keyCtrlC:
		return true
	case "s":
		v.order, v.first = (v.order+1)%topOrders, 0
	case "r":
		v.reverse, v.first = !v.reverse, 0
	case "p", " ":
		v.paused = !v.paused
	case "h", "?":
		v.help = !v.help
	case keyTab:
		v.onNodes = !v.onNodes
	case keyUp, "k":
		*at--
	case keyDown, "j":
		*at++
	case keyPageUp:
		*at -= v.page
	case keyPageDown:
		*at += v.page
	case keyHome:
		*at = 0
	case keyEnd:
		*at = unbounded / 2
	}
	*at = max(*at, 0) // the other end is where frame finds the list to end
	return false
}
