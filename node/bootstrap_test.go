package node

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/iqgate/iqgate/group"
	"github.com/iqgate/iqgate/store"
)

// A copy that cannot be put into its place does not stay: the next one could not even begin.
func TestCopyThatIsNotAdoptedIsRemoved(t *testing.T) {
	t.Parallel()
	base := time.Now()
	r := newTestReplica(base, group.NewLease(time.Second, base))
	r.set.dir = t.TempDir()
	r.dir = r.set.storeDir(r.id)
	b := &bootstrapper{set: r.set}
	id := store.ID{Store: r.id.Store}
	copied := func() {
		t.Helper()
		im, err := store.NewImport(r.set.incomingDir(r.id), id, store.Checkpoint{Position: 9}, store.Options{})
		if err == nil {
			err = im.Commit(store.SnapshotSum{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	gone := func() {
		t.Helper()
		if _, err := os.Stat(r.set.incomingDir(r.id)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the copy is there still: %v", err)
		}
	}
	kv, err := store.Open(r.dir, id, store.Options{DrainTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Apply([]store.Change{{Key: []byte("key")}}, store.Checkpoint{Position: 1}); err != nil {
		t.Fatal(err)
	}
	r.kv.Store(kv)

	copied()
	r.breakDown(&brokenStore{reason: "a read found it damaged", damaged: true})
	if err := b.replace(t.Context(), r); err == nil || r.kv.Load() != kv {
		t.Errorf("a store that is rebuilt was replaced: %v", err)
	}
	gone()
	r.broken.Store(nil)

	copied()
	for range kv.Reader().Range(nil, nil, false) { //nolint:errcheck // no error is looked for // a reader that takes its time
		if err := b.replace(t.Context(), r); !errors.Is(err, store.ErrDrain) {
			t.Errorf("replaced under a reader: %v", err)
		}
	}
	gone()
}
