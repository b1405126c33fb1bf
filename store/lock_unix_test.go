//go:build unix

package store

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// TestReopenedAtOnceAlthoughAChildHoldsOurFiles: between its fork and its exec a child process has all files of this one,
// and with them the locks on the directory. A store that was opened again in that moment was "in use", or corrupt when
// it was Badger's lock. Copies of the descriptors stand for the child.
func TestReopenedAtOnceAlthoughAChildHoldsOurFiles(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("needs /proc to find the descriptors")
	}
	dir := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, dir, Options{})
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	for _, fd := range fds {
		path, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err != nil || path != filepath.Join(dir, lockName) && path != filepath.Join(dir, databaseName) {
			continue
		}
		n, err := strconv.Atoi(fd.Name())
		if err != nil {
			t.Fatal(err)
		}
		inherited, err := syscall.Dup(n)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Close(inherited) }()
		held++
	}
	if held == 0 {
		t.Fatal("found no descriptor of the lock")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, dir, Options{})
}
