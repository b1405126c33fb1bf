package human

import (
	"testing"
	"time"
)

func TestNumbersAreWrittenForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -27004: "-27,004", 1234567: "1,234,567", -123: "-123"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
	const ms = time.Millisecond
	for d, want := range map[time.Duration]string{0: "0s", 1234 * time.Microsecond: "1.2ms", 123456 * time.Microsecond: "123ms", 6253 * ms: "6.3s", 61 * time.Second: "61.0s"} {
		if got := Short(d); got != want {
			t.Errorf("%s is written %s, want %s", d, got, want)
		}
	}
	if got := Count(1, "node") + ", " + Count(2, "node"); got != "1 node, 2 nodes" {
		t.Error(got)
	}
}
