package auth

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// TestEveryMethodHasARow of its own message's type, and every row a method. The services are those of the generated code.
func TestEveryMethodHasARow(t *testing.T) {
	left := map[string]bool{}
	for name := range methods {
		left[name] = true
	}
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		ours := f.Package() == "iq.v1" || strings.HasPrefix(string(f.Package()), "grpc.health.") || strings.HasPrefix(string(f.Package()), "grpc.reflection.")
		for i := 0; ours && i < f.Services().Len(); i++ {
			service := f.Services().Get(i)
			for j := range service.Methods().Len() {
				m := service.Methods().Get(j)
				name := "/" + string(service.FullName()) + "/" + string(m.Name())
				row, ok := methods[name]
				if !ok {
					t.Errorf("%s has no row: nobody may call it", name)
					continue
				}
				delete(left, name)
				if row.wants == nil {
					continue
				}
				in, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
				if err != nil {
					t.Error(err)
					continue
				}
				wants, err := row.wants(in.New().Interface())
				if err != nil || len(wants) == 0 && !row.each {
					t.Errorf("%s: wants %v, %v", name, wants, err)
				}
			}
		}
		return true
	})
	for name := range left {
		service, _, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
		if _, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service)); err != nil {
			continue // it is not built in
		}
		t.Errorf("%s is the row of no method", name)
	}
}

// TestAbsentBoundsAreNotEmptyKeys reads selections of the wire as package query does.
func TestAbsentBoundsAreNotEmptyKeys(t *testing.T) {
	bound := func(s string) []byte { return []byte(s) }
	for _, c := range []struct {
		name   string
		s      *iqv1.Selection
		prefix string
		want   bool
	}{
		{"nothing", nil, "a", false},
		{"all keys", &iqv1.Selection{}, "a", false},
		{"a range without bounds", &iqv1.Selection{Keys: &iqv1.Selection_Range{}}, "a", false},
		{"a range of no message", &iqv1.Selection{Keys: &iqv1.Selection_Range{Range: &iqv1.KeyRange{}}}, "a", false},
		{"no end", &iqv1.Selection{Keys: &iqv1.Selection_Range{Range: &iqv1.KeyRange{From: bound("a")}}}, "a", false},
		{"no beginning", &iqv1.Selection{Keys: &iqv1.Selection_Range{Range: &iqv1.KeyRange{To: bound("a")}}}, "a", false},
		{"both", &iqv1.Selection{Keys: &iqv1.Selection_Range{Range: &iqv1.KeyRange{From: bound("a"), To: bound("az")}}}, "a", true},
		{"to the next prefix, included", &iqv1.Selection{Keys: &iqv1.Selection_Range{Range: &iqv1.KeyRange{From: bound("a"), To: bound("b")}}}, "a", false},
		{"to the next prefix, excluded", &iqv1.Selection{Keys: &iqv1.Selection_Range{Range: &iqv1.KeyRange{From: bound("a"), To: bound("b"), ToExclusive: true}}}, "a", true},
		{"up to the empty key", &iqv1.Selection{Keys: &iqv1.Selection_Range{Range: &iqv1.KeyRange{To: []byte{}}}}, "a", false},
		{"before the empty key", &iqv1.Selection{Keys: &iqv1.Selection_Range{Range: &iqv1.KeyRange{To: []byte{}, ToExclusive: true}}}, "a", true},
		{"the empty key", &iqv1.Selection{Keys: &iqv1.Selection_Key{}}, "a", false},
		{"the empty prefix", &iqv1.Selection{Keys: &iqv1.Selection_Prefix{}}, "a", false},
		{"a prefix", &iqv1.Selection{Keys: &iqv1.Selection_Prefix{Prefix: bound("ab")}}, "a", true},
		{"the last prefix", &iqv1.Selection{Keys: &iqv1.Selection_Range{Range: &iqv1.KeyRange{From: []byte{0xff}}}}, "\xff", true},
	} {
		a := selected(Read, c.s)
		got := len(a.Keys) > 0
		for _, r := range a.Keys {
			got = got && r.within([]byte(c.prefix))
		}
		if got != c.want {
			t.Errorf("%s: within %q is %t", c.name, c.prefix, got)
		}
	}
}
