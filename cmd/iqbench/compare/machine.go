package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// gitTimeout bounds the question for the commit.
const gitTimeout = 5 * time.Second

// tuneGC has the load generator collect as seldom as the product's programs do.
func tuneGC() { debug.SetGCPercent(gcPercent) }

// setNice gives this process, and so all that it starts, a priority. On Linux each thread has its own.
func setNice(nice int) error {
	if nice == 0 {
		return nil
	}
	threads, err := filepath.Glob("/proc/self/task/[0-9]*")
	if err != nil || len(threads) == 0 {
		return syscall.Setpriority(syscall.PRIO_PROCESS, 0, nice)
	}
	for _, t := range threads {
		id, err := strconv.Atoi(filepath.Base(t))
		if err != nil {
			return err
		}
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, nice); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("--nice %d: %w", nice, err)
		}
	}
	return nil
}

// machine says on what was measured, and what.
type machine struct {
	CPU      string  `json:"cpu"`
	CPUs     int     `json:"cpus"`
	MemoryGB float64 `json:"memory_gb"`
	Kernel   string  `json:"kernel"`
	// LoadMin and LoadMax are the least and the most of the load average of a minute before a measure.
	LoadMin float64 `json:"load_min"`
	LoadMax float64 `json:"load_max"`

	Commit string `json:"commit"`
	Go     string `json:"go"`
	GRPC   string `json:"grpc"`
	Java   string `json:"java,omitempty"`
	Begun  string `json:"begun"`
}

// aboutMachine asks the operating system and the build.
func aboutMachine(ctx context.Context) machine {
	m := machine{CPU: "unknown", CPUs: runtime.NumCPU(), Kernel: "unknown", Go: runtime.Version(), Begun: time.Now().UTC().Format(time.RFC3339)}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if name := field(text, "model name"); name != "" {
			m.CPU = name
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		kib, _ := strconv.ParseFloat(strings.TrimSuffix(field(text, "MemTotal"), " kB"), 64) // 0 is not known
		m.MemoryGB = kib * 1024 / 1e9
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(text))
	}
	m.Commit = commit(ctx)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "google.golang.org/grpc" {
				m.GRPC = d.Version
			}
		}
	}
	return m
}

// field is the value of a line "name: value".
func field(text []byte, name string) string {
	for line := range bytes.Lines(text) {
		key, value, ok := bytes.Cut(line, []byte(":"))
		if ok && string(bytes.TrimSpace(key)) == name {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

// commit is the commit of the working directory, marked when there are changes; unknown outside of a checkout.
func commit(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// loadAverage is the machine's load over the last minute, 0 when it cannot be told.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	var one float64
	if _, err := fmt.Sscan(string(text), &one); err != nil {
		return 0
	}
	return one
}
