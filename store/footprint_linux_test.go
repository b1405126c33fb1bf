package store

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

const footprintDir = "IQGATE_FOOTPRINT_DIR" // tells the test's own process, started again, to be the idle one

// TestHundredIdleStores opens 100 stores that were filled and closed, in a process of its own with the garbage collector as
// iqnode sets it, and looks at what they take when nothing happens: memory, file handles, goroutines.
func TestHundredIdleStores(t *testing.T) {
	const stores, maxRSS, maxHandles, maxRoutines = 100, 300 << 20, 3000, 3000
	if dir := os.Getenv(footprintDir); dir != "" {
		idle(t, dir, stores)
		return
	}
	dir := t.TempDir()
	first := filepath.Join(dir, "0")
	s := mustOpen(t, first, Options{})
	for from := 0; from < 10_000; from += 2_500 {
		var changes []Change
		for k := range 2_500 {
			changes = append(changes, Change{Key: fmt.Appendf(nil, "key-%06d", from+k), Value: bytes.Repeat([]byte("v"), 100)})
		}
		if err := s.Apply(changes, Checkpoint{Position: int64(from + 2_500)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < stores; i++ {
		if err := os.CopyFS(filepath.Join(dir, strconv.Itoa(i)), os.DirFS(first)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHundredIdleStores$", "-test.v")
	cmd.Env = append(os.Environ(), footprintDir+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rss, handles, routines := told(t, out, "rss"), told(t, out, "handles"), told(t, out, "goroutines")
	t.Logf("100 idle stores: %d MB resident, %d file handles, %d goroutines", rss>>20, handles, routines)
	if rss > maxRSS || handles > maxHandles || routines > maxRoutines {
		t.Errorf("want at most %d MB, %d handles, %d goroutines", maxRSS>>20, maxHandles, maxRoutines)
	}
}

// idle is the other process.
func idle(t *testing.T, dir string, stores int) {
	t.Helper()
	debug.SetGCPercent(400)
	for i := range stores {
		s := mustOpen(t, filepath.Join(dir, strconv.Itoa(i)), Options{})
		for k := range 100 { // what has been read is mapped
			if _, found, _, err := s.Get(fmt.Appendf(nil, "key-%06d", k*97)); err != nil || !found {
				t.Fatal(found, err)
			}
		}
	}
	time.Sleep(2 * time.Second)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	handles, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nrss=%d\nhandles=%d\ngoroutines=%d\n", kib<<10, len(handles), runtime.NumGoroutine())
}

func told(t *testing.T, out []byte, name string) int {
	t.Helper()
	_, rest, found := strings.Cut(string(out), "\n"+name+"=")
	value, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(value)
	if !found || err != nil {
		t.Fatalf("no %s in %s", name, out)
	}
	return n
}
