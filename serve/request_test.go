package serve

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func TestPolicyDefaults(t *testing.T) {
	for name, c := range map[string]struct {
		policy *iqv1.ReadPolicy
		want   iqv1.ReadPolicy_Mode
	}{
		"none":            {nil, iqv1.ReadPolicy_MODE_ACTIVE},
		"empty":           {&iqv1.ReadPolicy{}, iqv1.ReadPolicy_MODE_ACTIVE},
		"a bound alone":   {&iqv1.ReadPolicy{MaxStaleness: durationpb.New(time.Second)}, iqv1.ReadPolicy_MODE_BOUNDED},
		"offsets alone":   {&iqv1.ReadPolicy{MaxOffsetLag: new(int64(0))}, iqv1.ReadPolicy_MODE_BOUNDED},
		"any and a bound": {&iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_ANY, MaxOffsetLag: new(int64(5))}, iqv1.ReadPolicy_MODE_ANY},
	} {
		p, err := policyOf(c.policy, iqv1.ReadPolicy_MODE_ACTIVE)
		if err != nil || p.mode != c.want {
			t.Errorf("%s: %v, %v", name, p.mode, err)
		}
	}
}

// Whatever is wrong with a policy is said by field and value, all of it.
func TestBadPolicyNamesFieldAndValue(t *testing.T) {
	_, err := policyOf(&iqv1.ReadPolicy{
		Mode: 99, Prefer: 98, Isolation: 97,
		MaxStaleness: durationpb.New(-time.Second), MaxOffsetLag: new(int64(-7)), Wait: durationpb.New(-time.Minute),
		AtLeast: &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: "in", Partition: -2}, {Partition: 1}, {Topic: "in", Offset: -3}}},
	}, iqv1.ReadPolicy_MODE_ACTIVE)
	if !errors.Is(err, iqerr.ErrInvalid) {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{
		"policy.mode", "99", "policy.prefer", "98", "policy.isolation", "97", "policy.max_staleness", "-1s",
		"policy.max_offset_lag", "-7", "policy.wait", "-1m0s", "at_least.offsets.partition", "-2", "at_least.offsets.topic", "at_least.offsets.offset", "-3",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if _, err := policyOf(&iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_BOUNDED}, iqv1.ReadPolicy_MODE_ACTIVE); !errors.Is(err, iqerr.ErrInvalid) {
		t.Errorf("bounded without a bound: %v", err)
	}
}
