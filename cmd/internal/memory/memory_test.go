package memory

import (
	"os"
	"runtime"
	"testing"
	"time"
)

func TestGCPercent(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	for _, c := range []struct {
		name       string
		live, scan uint64
		want       int
	}{
		{"a node that has just started", 4 * mb, 2 * mb, 400},
		{"a few requests over a small heap", 12 * mb, 8 * mb, 400},
		{"eight stores: the memtables are not scanned", 96 * mb, 20 * mb, 50},
		{"records that wait to be processed are", 192 * mb, 96 * mb, 50},
		{"a hundred stores", 1200 * mb, 30 * mb, 5},
		{"nothing is known", 0, 0, 400},
	} {
		if got := gcPercent(c.live, c.scan); got != c.want {
			t.Errorf("%s: GOGC=%d, want %d", c.name, got, c.want)
		}
	}
}

// The setting follows what lives, collection by collection.
func TestCollectorAdjustsAfterEachCollection(t *testing.T) {
	told := make(chan int, 16)
	c := &collector{measure: func() (live, scan uint64) { return 96 << 20, 20 << 20 }, set: func(percent int) { told <- percent }}
	c.await()
	for range 3 {
		runtime.GC()
	}
	select {
	case got := <-told:
		if got != 50 {
			t.Errorf("GOGC=%d, want 50", got)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was set after a collection")
	}
}

func TestIsSet(t *testing.T) {
	t.Parallel()
	env := []string{"GOGC=", "GOMEMLIMIT=1GiB", "GOMAXPROCSX=3"}
	for name, want := range map[string]bool{"GOGC": false, "GOMEMLIMIT": true, "GOMAXPROCS": false} {
		if isSet(env, name) != want {
			t.Errorf("%s: set is not %t", name, want)
		}
	}
}

func TestMemoryLimitIsOfTheSmallerOfMachineAndCgroup(t *testing.T) {
	for _, c := range []struct {
		meminfo, cgroup2, cgroup1 string
		want                      int64
	}{
		{"MemTotal:       1000 kB\nMemFree: 1 kB\n", "", "", 10 * 1024 * memoryPercent},
		{"MemTotal:       1000 kB\n", "500000\n", "", 5000 * memoryPercent},
		{"MemTotal:       1000 kB\n", "max\n", "9223372036854771712\n", 10 * 1024 * memoryPercent},
		{"MemTotal:       1000 kB\n", "", "100000\n", 1000 * memoryPercent},
		{"", "400000", "", 4000 * memoryPercent},
		{"MemTotal: unknown", "max", "", 0},
		{"", "", "", 0},
	} {
		files := map[string]string{"/proc/meminfo": c.meminfo, "/sys/fs/cgroup/memory.max": c.cgroup2, "/sys/fs/cgroup/memory/memory.limit_in_bytes": c.cgroup1}
		got := memoryLimit(func(name string) ([]byte, error) {
			if files[name] == "" {
				return nil, os.ErrNotExist
			}
			return []byte(files[name]), nil
		})
		if got != c.want {
			t.Errorf("meminfo %q, cgroup %q %q: limit %d, want %d", c.meminfo, c.cgroup2, c.cgroup1, got, c.want)
		}
	}
}
