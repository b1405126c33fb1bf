//go:build linux || darwin

package store

import (
	"fmt"
	"math"
	"syscall"
)

// freeBytes is the space that an ordinary user may still fill.
func freeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	free := float64(st.Bavail) * float64(st.Bsize)
	return int64(min(free, math.MaxInt64/2)), nil
}

// sizeBytes is the size of the file system.
func sizeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("size of %s: %w", dir, err)
	}
	size := float64(st.Blocks) * float64(st.Bsize)
	return int64(min(size, math.MaxInt64/2)), nil
}
