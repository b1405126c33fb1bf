package node

import (
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/iqgate/iqgate/group"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/store"
)

// damagedReader finds that nothing is as it was.
type damagedReader struct{ store.Reader }

var errDamaged = fmt.Errorf("%w: value is cut short", store.ErrCorrupt)

func (damagedReader) Get([]byte) (store.Value, bool, error) { return store.Value{}, false, errDamaged }

func (damagedReader) Scan(store.Scan) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) { yield(store.Entry{}, errDamaged) }
}

func (damagedReader) Schema() store.Schema { return store.Schema{} }

// A task whose own read finds its store damaged lets go of it, so that it is rebuilt: it would fail on the record again and
// again. On any other failure it rests.
func TestTaskLetsGoOfADamagedStore(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(*store.Overlay) error{
		"get": func(o *store.Overlay) error { _, _, err := o.Get([]byte("key")); return err },
		"range": func(o *store.Overlay) (last error) {
			for _, err := range o.Range(nil, nil, false) {
				last = err
			}
			return last
		},
	} {
		base := time.Now()
		r := newTestReplica(base, group.NewLease(time.Second, base))
		task := &activeTask{stores: []*taskStore{{replica: r}}}
		var own *taskError
		if err := task.blame(errors.New("the record makes no sense")); !errors.As(err, &own) {
			t.Errorf("%s: any other failure gives %v", name, err)
		}
		err := read(store.NewOverlay(taskReader{damagedReader{}, r}))
		if !errors.Is(err, store.ErrCorrupt) || r.broken.Load() == nil {
			t.Errorf("%s: %v, and the store is broken: %t", name, err, r.broken.Load() != nil)
		}
		if err := task.blame(err); err == nil || errors.As(err, &own) {
			t.Errorf("%s: damage gives %v", name, err)
		}
	}
}

// A promotion that ends just when everything was reset has no task to start: it gives the tokens back.
func TestPromotionThatEndsInAReset(t *testing.T) {
	t.Parallel()
	base := time.Now()
	r := newTestReplica(base, group.NewLease(time.Second, base))
	r.set.mu.all = map[metadata.Partition]*replica{r.id: r}
	r.set.publish()
	info := &taskInfo{stores: []storeInfo{{id: r.id}}}
	w := &worker{replicas: r.set, active: map[metadata.TaskID]*activeTask{{}: {info: info, life: 1, stage: stagePromoting}}}
	if !r.tryTake() {
		t.Fatal("somebody has the token")
	}
	w.start(&promotion{task: info, life: 1})
	if !r.tryTake() {
		t.Error("the token was not given back")
	}
}
