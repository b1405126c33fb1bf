package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

const (
	incarnationFile = "incarnation"
	lockFile        = "lock"
)

// A stateDir is the node's directory, locked for this process.
type stateDir struct {
	lock        *os.File
	incarnation metadata.Incarnation
	// fresh says that no process has used the directory before: then the lock tells nothing of one with the same node id.
	fresh bool
}

// openStateDir makes and locks the directory and counts the incarnation up: it is the time of the start in milliseconds,
// or one more than the last where a clock was set back.
func openStateDir(dir string) (*stateDir, error) {
	if err := os.MkdirAll(dir, stateDirectory); err != nil {
		return nil, fmt.Errorf("node: StateDir %q: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // G304: the operator's own directory
	if err != nil {
		return nil, fmt.Errorf("node: StateDir %q: %w", dir, err)
	}
	if err := lockExclusive(f); err != nil {
		return nil, errors.Join(fmt.Errorf("node: StateDir %q is in use by another process: %w", dir, err), f.Close())
	}
	path := filepath.Join(dir, incarnationFile)
	last, fresh := int64(0), true
	if data, err := os.ReadFile(path); err == nil { //nolint:gosec // G304: the operator's own directory
		fresh = false
		last, _ = strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64) // a damaged file counts as none
	}
	now := max(last+1, time.Now().UnixMilli())
	tmp := path + ".new"
	err = os.WriteFile(tmp, []byte(strconv.FormatInt(now, 10)+"\n"), 0o600)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("node: StateDir %q: %w", dir, err), f.Close())
	}
	return &stateDir{lock: f, incarnation: metadata.Incarnation(now), fresh: fresh}, nil
}

func (s *stateDir) close() { _ = s.lock.Close() }
