//go:build unix

package node

import (
	"os"
	"syscall"
)

// lockExclusive takes the file's lock, which ends with the process.
func lockExclusive(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
