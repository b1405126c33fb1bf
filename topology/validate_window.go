package topology

import (
	"strings"
	"time"
)

// history checks the history of a table, if it has one.
func (v *validator) history(path string, d time.Duration) {
	if d == 0 {
		return
	}
	spec := StoreSpec{Kind: Versioned, Retention: d}
	for _, text := range spec.faults() {
		v.fault(path+".versioned.history", "%s", strings.TrimPrefix(text, "retention "))
	}
}

// windows checks the windows of an aggregate.
func (v *validator) windows(path string, a *AggregateConfig) {
	for _, f := range a.Window.faults() {
		at := path + ".window"
		if f.field != "" {
			at += "." + f.field
		}
		v.fault(at, "%s", f.text)
	}
	if a.Window.Kind == SlidingWindows && a.Op == OpFirst {
		v.fault(path+".first", "cannot be over sliding windows, whose timestamp is that of their last record")
	}
}

// keyForm checks the form of an output's keys.
func (v *validator) keyForm(path string, o OutputConfig, windowed bool) {
	at := path + ".output_key"
	switch {
	case o.Key > KeyJSON:
		v.fault(at, "%s is not known", o.Key)
	case o.Key != KeyBinary && !windowed:
		v.fault(at, "is of no use without window")
	case o.Key != KeyBinary && o.Topic == "":
		v.fault(at, "is of no use without output")
	}
}
