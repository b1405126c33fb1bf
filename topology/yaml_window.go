package topology

import (
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// history returns the history of a table, 0 when it has none.
func (y *yamlReader) history(m mapping) time.Duration {
	n := m.fields["versioned"]
	if n == nil {
		return 0
	}
	in, ok := y.mapping(n, m.path+"versioned", "history")
	if ok && in.fields["history"] == nil {
		y.fault(n, in.path+"history", "is required")
	}
	return y.duration(in, "history", true)
}

// window returns the windows of an aggregate.
func (y *yamlReader) window(m mapping) Windows {
	n := m.fields["window"]
	if n == nil {
		return Windows{}
	}
	known := []string{"advance", "grace", "retention"}
	var kinds []string
	for _, k := range windowsKinds() {
		kinds = append(kinds, k.String())
	}
	in, ok := y.mapping(n, m.path+"window", append(known, kinds...)...)
	if !ok {
		return Windows{}
	}
	w := Windows{Advance: y.duration(in, "advance", true), Grace: y.duration(in, "grace", false), Retention: y.duration(in, "retention", true)}
	for _, k := range windowsKinds() {
		at := in.fields[k.String()]
		switch {
		case at == nil:
		case w.Kind != NoWindows:
			y.fault(at, in.path+k.String(), "%s is given already; an aggregate has one kind of windows", w.Kind)
		default:
			w.Kind, w.Size = k, y.duration(in, k.String(), true)
		}
	}
	switch {
	case w.Kind == NoWindows:
		y.fault(n, m.path+"window", "one of %s is required", strings.Join(kinds, ", "))
	case w.Kind == HoppingWindows && in.fields["advance"] == nil:
		y.fault(n, in.path+"advance", "is required for hopping windows")
	}
	if y.faultWithin(m.path + "window") {
		return Windows{} // one fault is enough
	}
	return w
}

// faultWithin says whether there is a fault about a field or what is in it.
func (y *yamlReader) faultWithin(path string) bool {
	return slices.ContainsFunc(y.faults, func(f Fault) bool { return f.Path == path || strings.HasPrefix(f.Path, path+".") })
}

// duration returns a duration of whole milliseconds, 0 when absent. It must be more than 0 if positive says so.
func (y *yamlReader) duration(m mapping, field string, positive bool) time.Duration {
	n := m.fields[field]
	if n == nil {
		return 0
	}
	d, err := time.ParseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag != "!!str" || err != nil:
		y.fault(n, m.path+field, "want a duration such as 1h30m, 90s or 500ms, have %s", describe(n))
	case d < 0 || positive && d == 0:
		y.fault(n, m.path+field, "%s is too short", n.Value)
	case d%time.Millisecond != 0:
		y.fault(n, m.path+field, "%s is no whole number of milliseconds", n.Value)
	case d > maxWindowTime:
		y.fault(n, m.path+field, "%s is more than %s", n.Value, maxWindowTime)
	default:
		return d
	}
	return 0
}
