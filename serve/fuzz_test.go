package serve

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// FuzzPolicyIsCheckedOrRefused gives any bytes as a policy.
func FuzzPolicyIsCheckedOrRefused(f *testing.F) {
	for _, p := range []*iqv1.ReadPolicy{
		{},
		{Mode: iqv1.ReadPolicy_MODE_STRONG},
		{Mode: 99},
		{MaxOffsetLag: new(int64(-1))},
		{Mode: iqv1.ReadPolicy_MODE_ANY, AtLeast: &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: "t", Partition: -1, Offset: 1 << 62}}}},
	} {
		b, err := proto.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0x12, 0x02, 0x08, 0x01, 0x22, 0x0b, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x10, 0x01})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m iqv1.ReadPolicy
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		p, err := policyOf(&m, iqv1.ReadPolicy_MODE_ACTIVE)
		if err != nil {
			if iqerr.ReasonOf(err) != iqv1.Reason_REASON_INVALID {
				t.Fatalf("%v: %v", &m, err)
			}
			return
		}
		if p.mode == iqv1.ReadPolicy_MODE_UNSPECIFIED || p.wait < 0 {
			t.Fatalf("%v is taken as %+v", &m, p)
		}
	})
}
