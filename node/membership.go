package node

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"
)

// membershipFile, in the state directory, has what the group knows of the node; its time of change is when the node was
// last known to be a member.
const membershipFile = "membership"

// A memory is the group.Memory in the state directory. A failure costs a restart its quick return, no more. The file
// begins with the group's name and a line break: a directory may have served another application.
type memory struct {
	path  string
	group string
	log   *slog.Logger
}

// Recall implements group.Memory.
func (m *memory) Recall() ([]byte, time.Time) {
	info, err := os.Stat(m.path)
	if err != nil {
		return nil, time.Time{}
	}
	data, err := os.ReadFile(m.path)
	if err != nil {
		return nil, time.Time{}
	}
	name, told, found := bytes.Cut(data, []byte{'\n'})
	if !found || string(name) != m.group || len(told) == 0 {
		return nil, time.Time{}
	}
	return told, info.ModTime()
}

// Remember implements group.Memory.
func (m *memory) Remember(told []byte) {
	if told == nil {
		if err := os.Remove(m.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.log.Warn("cannot remove what the group knew of this node", slog.Any("error", err))
		}
		return
	}
	next := m.path + ".new"
	err := os.WriteFile(next, append([]byte(m.group+"\n"), told...), 0o600)
	if err == nil {
		err = os.Rename(next, m.path)
	}
	if err != nil {
		m.log.Warn("cannot keep what the group knows of this node; a restart will cause a rebalance", slog.Any("error", err))
		return
	}
	m.Alive(time.Now())
}

// Alive implements group.Memory.
func (m *memory) Alive(now time.Time) {
	if err := os.Chtimes(m.path, now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.log.Debug("cannot keep when this node was a member", slog.Any("error", err))
	}
}
