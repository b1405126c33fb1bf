package iqnode

import (
	"bytes"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// A node spends most of its garbage on requests that live for microseconds: with GOGC=400 a read costs a
// quarter less CPU. The price is memory, up to five times what lives, so it is paid only below a limit.
const (
	gcPercent     = 400
	memoryPercent = 70 // of the machine's or the cgroup's memory; the rest is the page cache and the stores' mapped files
	memoryHelp    = "GOGC and GOMEMLIMIT count if set; else GOGC is 400 below 70% of the machine's or cgroup's memory"
)

// tuneGC sets GOGC and a memory limit, unless the user has set either, or the size of the memory cannot be told.
func tuneGC(env []string, log *slog.Logger) {
	for _, line := range env {
		name, value, _ := strings.Cut(line, "=")
		if value != "" && slices.Contains([]string{"GOGC", "GOMEMLIMIT"}, name) {
			return
		}
	}
	limit := memoryLimit(os.ReadFile)
	if limit == 0 {
		return
	}
	debug.SetMemoryLimit(limit)
	debug.SetGCPercent(gcPercent)
	log.Debug("garbage collector", slog.Int("gc_percent", gcPercent), slog.Int64("memory_limit", limit))
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
