package topology

import (
	"fmt"
	"iter"
)

// taskStore is the node's store; its failures reach the task even if the processor drops them.
type taskStore struct {
	task *Task
	name string
	kind StoreKind

	inner     KeyValueStore // of KeyValue
	window    *taskWindowStore
	session   *taskSessionStore
	versioned *taskVersionedStore
}

// openStore asks the output for a store.
func openStore(t *Task, spec StoreSpec, out Output) (*taskStore, error) {
	s := &taskStore{task: t, name: spec.Name, kind: spec.Kind}
	windowed, ok := out.(WindowedOutput)
	if !ok && spec.Kind != KeyValue {
		return nil, fmt.Errorf("store %q is a %s store, and the task's output (%T) has key-value stores only", spec.Name, spec.Kind, out)
	}
	missing := false
	switch spec.Kind {
	case KeyValue:
		s.inner = out.Store(spec.Name)
		missing = s.inner == nil
	case Window:
		s.window = &taskWindowStore{s, windowed.WindowStore(spec.Name)}
		missing = s.window.inner == nil
	case Session:
		s.session = &taskSessionStore{s, windowed.SessionStore(spec.Name)}
		missing = s.session.inner == nil
	case Versioned:
		s.versioned = &taskVersionedStore{s, windowed.VersionedStore(spec.Name)}
		missing = s.versioned.inner == nil
	}
	if missing {
		return nil, fmt.Errorf("store %q is missing", spec.Name)
	}
	return s, nil
}

func (s *taskStore) check(op string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("store %q: %s: %w", s.name, op, err)
	s.task.fail(&s.task.fatal, err)
	return err
}

func (s *taskStore) Get(key []byte) ([]byte, int64, bool, error) {
	value, ts, found, err := s.inner.Get(key)
	return value, ts, found, s.check("get", err)
}

func (s *taskStore) Put(key, value []byte, timestamp int64) error {
	if value == nil {
		return s.Delete(key, timestamp)
	}
	return s.check("put", s.inner.Put(key, value, timestamp))
}

func (s *taskStore) Delete(key []byte, timestamp int64) error {
	return s.check("delete", s.inner.Delete(key, timestamp))
}

func (s *taskStore) Range(from, to []byte, reverse bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range s.inner.Range(from, to, reverse) {
			if err = s.check("range", err); !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// brokenStore is what a processor gets for a store that it may not use.
type brokenStore struct {
	task *Task
	err  error
}

func (s brokenStore) fail() error {
	s.task.fail(&s.task.fatal, s.err)
	return s.err
}

func (s brokenStore) Get([]byte) ([]byte, int64, bool, error) { return nil, 0, false, s.fail() }
func (s brokenStore) Put(_, _ []byte, _ int64) error          { return s.fail() }
func (s brokenStore) Delete([]byte, int64) error              { return s.fail() }

func (s brokenStore) Range(_, _ []byte, _ bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) { yield(Entry{}, s.fail()) }
}
