package reload

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

const (
	// DefaultInterval is the time between two looks at the files.
	DefaultInterval = 5 * time.Second
	// MaxBytes bounds one file.
	MaxBytes = 1 << 20
)

// A Value is what its files say.
type Value[T any] struct {
	what  string
	paths []string
	parse func(contents [][]byte) (*T, error)
	now   atomic.Pointer[T]
	seen  [sha256.Size]byte // of the bytes read last, whether they made a value or not; one goroutine's at a time
}

// New reads the files and makes the first edition. parse is given the contents of each file, in order; it must be a pure
// function. what names the value in logs and errors, for instance "certificate".
func New[T any](what string, paths []string, parse func(contents [][]byte) (*T, error)) (*Value[T], error) {
	v := &Value[T]{what: what, paths: paths, parse: parse}
	if _, err := v.Check(); err != nil {
		return nil, err
	}
	return v, nil
}

// Load is the newest edition. It is never nil.
func (v *Value[T]) Load() *T { return v.now.Load() }

// What names the value.
func (v *Value[T]) What() string { return v.what }

// Check looks at the files and says whether there is a new edition. An error leaves the old one; the same wrong bytes are an
// error each time. Only one goroutine may call it at a time.
func (v *Value[T]) Check() (changed bool, err error) {
	contents := make([][]byte, len(v.paths))
	for i, path := range v.paths {
		if contents[i], err = Read(path); err != nil {
			return false, fmt.Errorf("%s: %w", v.what, err)
		}
	}
	sum := digest(contents)
	if sum == v.seen {
		return false, nil
	}
	value, err := v.parse(contents)
	if err != nil {
		return false, fmt.Errorf("%s: %w", v.what, err)
	}
	v.seen = sum
	v.now.Store(value)
	return true, nil
}

// digest tells contents apart, also where the same bytes lie in other files.
func digest(contents [][]byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, c := range contents {
		_ = binary.Write(h, binary.BigEndian, int64(len(c))) // a hash takes everything
		_, _ = h.Write(c)
	}
	copy(sum[:], h.Sum(nil))
	return sum
}

// Read is os.ReadFile with the bound MaxBytes. Its error names the file and never its content.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // whoever configures the process names the file
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > MaxBytes:
		return nil, fmt.Errorf("%s has more than %d bytes", path, MaxBytes)
	}
	return data, nil
}

// A Checker is a Value of any type.
type Checker interface {
	Check() (changed bool, err error)
	What() string
}

// Follow checks the values each interval until ctx ends; an interval of 0 is DefaultInterval. It logs each new edition, and
// each error once until it is another or over.
func Follow(ctx context.Context, interval time.Duration, log *slog.Logger, values ...Checker) error {
	if interval < 0 {
		return errors.New("reload: the interval must not be negative")
	}
	if interval == 0 {
		interval = DefaultInterval
	}
	complained := make([]string, len(values))
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for i, v := range values {
			changed, err := v.Check()
			switch {
			case err != nil && err.Error() != complained[i]:
				complained[i] = err.Error()
				log.Error("changed files are not taken; what was read before stays", slog.String("what", v.What()), slog.Any("error", err))
			case err == nil:
				complained[i] = ""
			}
			if changed {
				log.Info("changed files are taken", slog.String("what", v.What()))
			}
		}
	}
}
