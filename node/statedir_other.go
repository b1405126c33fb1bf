//go:build !unix

package node

import "os"

// lockExclusive does nothing where files have no such lock; the stores' own locks remain.
func lockExclusive(*os.File) error { return nil }
