package peer

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Each field that the peer speaks is the product's field of that number, or the two sides would not be asked alike.
func TestWireOfThePeerIsTheProducts(t *testing.T) {
	text, err := os.ReadFile("src/main/proto/query.proto")
	if err != nil {
		t.Fatal(err)
	}
	field := regexp.MustCompile(`^  (?:optional )?(\w+) (\w+) = (\d+);`)
	var in protoreflect.MessageDescriptor
	checked := 0
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSuffix(line, " {\n"), "message "); ok {
			in = iqv1.File_iq_v1_query_proto.Messages().ByName(protoreflect.Name(name))
		}
		m := field.FindStringSubmatch(line)
		if m == nil || in == nil {
			continue
		}
		n, err := strconv.Atoi(m[3])
		if err != nil {
			t.Fatal(err)
		}
		f := in.Fields().ByNumber(protoreflect.FieldNumber(n))
		if f == nil || string(f.Name()) != m[2] {
			t.Errorf("%s.%s = %d is not in the product's wire: there it is %v", in.Name(), m[2], n, f)
			continue
		}
		kind := f.Kind().String()
		if d := f.Message(); d != nil {
			kind = string(d.Name())
		} else if d := f.Enum(); d != nil {
			kind = string(d.Name())
		}
		if kind != m[1] {
			t.Errorf("%s.%s is a %s here and a %s in the product", in.Name(), m[2], m[1], kind)
		}
		checked++
	}
	if checked != 8 {
		t.Errorf("%d fields were compared, want 8", checked)
	}
}
