package kafkabroker

import (
	"strings"
	"testing"
)

func TestBadOptionsAreNamedBeforeAnythingStarts(t *testing.T) {
	for _, c := range []struct {
		opts Options
		want string
	}{
		{Options{}, "option Dir is empty"},
		{Options{Dir: "d", Heap: "1"}, `option Heap "1"`},
		{Options{Dir: "d", Heap: "1t"}, `option Heap "1t"`},
		{Options{Dir: "d", Heap: "-1g"}, `option Heap "-1g"`},
	} {
		_, err := start(t.Context(), c.opts, freePort)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("start(%+v) says %v, want %q", c.opts, err, c.want)
		}
	}
}
