package auth

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestDecide reads the rules and then, for each list of a principal's names, one access a line:
//
//	action store [key | [from,to) | [from,to] | prefix:key]...
//
// where * is all stores, and a key may be hex:ff.
func TestDecide(t *testing.T) {
	var rules *Rules
	datadriven.RunTest(t, "testdata/decide", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "rules":
			var err error
			if rules, err = ParseRules([]byte(d.Input)); err != nil {
				return err.Error() + "\n"
			}
			return "ok\n"
		case "decide":
			var who string
			d.MaybeScanArgs(t, "names", &who)
			var p Principal
			if who != "" {
				p.Names = strings.Split(who, ",")
			}
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				if err := Decide(rules, p, []Access{readAccess(t, strings.Fields(line))}); err != nil {
					fmt.Fprintln(&out, err)
				} else {
					fmt.Fprintln(&out, "allowed")
				}
			}
			return out.String()
		}
		d.Fatalf(t, "unknown command %s", d.Cmd)
		return ""
	})
}

func readAccess(t *testing.T, words []string) Access {
	t.Helper()
	a := Access{Action: Action(words[0])}
	if len(words) == 1 {
		return a
	}
	if a.Action == Report || a.Action == Peer {
		a.Node = words[1]
		return a
	}
	if words[1] != "*" {
		a.Store = words[1]
	}
	for _, w := range words[2:] {
		from, to, isRange := strings.Cut(strings.Trim(w, "[)]"), ",")
		prefix, isPrefix := strings.CutPrefix(w, "prefix:")
		switch {
		case isRange && strings.HasSuffix(w, "]"):
			a.Keys = append(a.Keys, Range{From: readKey(t, from), To: after(readKey(t, to))})
		case isRange:
			a.Keys = append(a.Keys, Range{From: readKey(t, from), To: readKey(t, to)})
		case isPrefix:
			a.Keys = append(a.Keys, Prefixed(readKey(t, prefix)))
		default:
			a.Keys = append(a.Keys, Point(readKey(t, w)))
		}
	}
	return a
}

func readKey(t *testing.T, text string) []byte {
	t.Helper()
	if raw, ok := strings.CutPrefix(text, "hex:"); ok {
		key, err := hex.DecodeString(raw)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	return []byte(text)
}

// TestARangeIsWithinAPrefixExactlyWhenAllOfItsKeysAre compares with a look at every key over a small alphabet, longer ones
// than the bounds included.
func TestARangeIsWithinAPrefixExactlyWhenAllOfItsKeysAre(t *testing.T) {
	// Bounds have some bytes, and keys those between them as well.
	short, all := words([]byte{0, 'a', 0xff}, 2), words([]byte{0, 1, 'a', 'b', 0xff}, 4)
	checked := 0
	for _, prefix := range short {
		for _, from := range short {
			for _, to := range append([][]byte{nil}, short...) {
				r := Range{From: from, To: to}
				want := true
				for _, k := range all {
					in := bytes.Compare(k, from) >= 0 && (to == nil || bytes.Compare(k, to) < 0)
					if in && !bytes.HasPrefix(k, prefix) {
						want = false
					}
				}
				if got := r.within(prefix); got != want {
					t.Errorf("[%x, %x) within %x: %t, want %t", from, to, prefix, got, want)
				}
				checked++
			}
		}
	}
	if checked != 13*13*14 {
		t.Errorf("%d ranges checked", checked)
	}
}

// words are all keys of at most length bytes of an alphabet.
func words(alphabet []byte, length int) [][]byte {
	all := [][]byte{{}}
	for level := all; length > 0; length-- {
		var next [][]byte
		for _, k := range level {
			for _, b := range alphabet {
				next = append(next, append(bytes.Clone(k), b))
			}
		}
		all, level = append(all, next...), next
	}
	return all
}
