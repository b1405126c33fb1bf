// Package memory chooses, for the programs that serve, when the garbage collector runs and how much memory there is for it.
package memory

import (
	"bytes"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
)

const (
	// memoryPercent is of the machine's or the cgroup's memory; the rest is the page cache and the stores' mapped files.
	memoryPercent = 70
	// firstGCPercent holds until the first collection.
	firstGCPercent = 400
	// Help says in a program's usage what Tune does.
	Help = "GOGC and GOMEMLIMIT count if set; else the program lets 48 MiB of garbage gather, or as much as it has to scan, below 70% of the machine's or cgroup's memory"
)

// Bounds of the garbage that gathers between two collections.
const (
	leastGarbage               = 48 << 20
	minGCPercent, maxGCPercent = 5, 400
)

// gcPercent is GOGC for a heap of which live bytes outlived the last collection and scan bytes have to be looked through by
// the next one. What a collection costs is what it has to scan, while GOGC counts from all that lives, and most of that are
// the stores' memtables, in which there is nothing to scan: a GOGC that is right for requests alone would let five
// times the memtables gather before it collects.
func gcPercent(live, scan uint64) int {
	garbage := max(leastGarbage, scan)
	return int(min(maxGCPercent, max(minGCPercent, garbage*100/max(live, 1))))
}

// Tune sets a memory limit and keeps GOGC right from collection to collection, unless the user has set either, or the size
// of the memory cannot be told.
func Tune(env []string, log *slog.Logger) {
	if isSet(env, "GOGC") || isSet(env, "GOMEMLIMIT") {
		return
	}
	limit := memoryLimit(os.ReadFile)
	if limit == 0 {
		return
	}
	debug.SetMemoryLimit(limit)
	debug.SetGCPercent(firstGCPercent)
	log.Debug("garbage collector", slog.Int64("memory_limit", limit))
	c := &collector{percent: firstGCPercent, measure: heapSizes(), set: func(percent int) { debug.SetGCPercent(percent) }}
	c.await()
}

// heapSizes returns what tells the bytes that outlived the last collection and those that the next one has to scan.
func heapSizes() func() (live, scan uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}}
	return func() (live, scan uint64) {
		metrics.Read(samples)
		return samples[0].Value.Uint64(), samples[1].Value.Uint64()
	}
}

// isSet says whether a variable of the environment has a value.
func isSet(env []string, name string) bool {
	return slices.ContainsFunc(env, func(line string) bool {
		n, value, _ := strings.Cut(line, "=")
		return n == name && value != ""
	})
}

// A collector sets GOGC after each collection. Only the runtime's goroutine for cleanups uses it.
type collector struct {
	percent int
	measure func() (live, scan uint64)
	set     func(percent int)
}

// await has adjust called after the next collection: it makes something that nobody holds.
func (c *collector) await() {
	type canary struct{ _ [64]byte } // too large to share its memory with what others hold
	runtime.AddCleanup(&canary{}, (*collector).adjust, c)
}

func (c *collector) adjust() {
	defer c.await()
	if percent := gcPercent(c.measure()); percent != c.percent { // setting it stops the world for some microseconds
		c.percent = percent
		c.set(percent)
	}
}

// memoryLimit is memoryPercent of the smallest of the machine's memory and the cgroup's limit, 0 when neither is known.
func memoryLimit(readFile func(string) ([]byte, error)) int64 {
	least := int64(math.MaxInt64)
	if data, err := readFile("/proc/meminfo"); err == nil {
		if _, rest, ok := bytes.Cut(data, []byte("MemTotal:")); ok {
			if f := strings.Fields(string(rest)); len(f) > 0 {
				if kib, err := strconv.ParseInt(f[0], 10, 53); err == nil && kib > 0 {
					least = kib << 10
				}
			}
		}
	}
	for _, name := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if data, err := readFile(name); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil && n > 0 {
				least = min(least, n) // "max" is no number
			}
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least / 100 * memoryPercent
}
