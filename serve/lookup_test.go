package serve

import (
	"errors"
	"testing"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/topology"
)

// A Get names what its store's kind is read by, and nothing else.
func TestGetNamesWhatItsKindNeeds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind topology.StoreKind
		req  *iqv1.GetRequest
		bad  string // field
	}{
		{topology.KeyValue, &iqv1.GetRequest{}, ""},
		{topology.KeyValue, &iqv1.GetRequest{WindowStartMs: new(int64(1))}, "window_start_ms"},
		{topology.KeyValue, &iqv1.GetRequest{SessionEndMs: new(int64(1))}, "session_end_ms"},
		{topology.KeyValue, &iqv1.GetRequest{AsOfMs: new(int64(1))}, "as_of_ms"},
		{topology.Window, &iqv1.GetRequest{}, "window_start_ms"},
		{topology.Window, &iqv1.GetRequest{WindowStartMs: new(int64(0))}, ""},
		{topology.Window, &iqv1.GetRequest{WindowStartMs: new(int64(0)), SessionEndMs: new(int64(0))}, "session_end_ms"},
		{topology.Session, &iqv1.GetRequest{WindowStartMs: new(int64(0))}, "session_end_ms"},
		{topology.Session, &iqv1.GetRequest{SessionEndMs: new(int64(0))}, "window_start_ms"},
		{topology.Session, &iqv1.GetRequest{WindowStartMs: new(int64(2)), SessionEndMs: new(int64(1))}, "session_end_ms"},
		{topology.Session, &iqv1.GetRequest{WindowStartMs: new(int64(1)), SessionEndMs: new(int64(1))}, ""},
		{topology.Versioned, &iqv1.GetRequest{}, ""},
		{topology.Versioned, &iqv1.GetRequest{AsOfMs: new(int64(-1))}, ""},
		{topology.Versioned, &iqv1.GetRequest{WindowStartMs: new(int64(1))}, "window_start_ms"},
	} {
		get := query.GetOf(test.req)
		_, err := lookupOf(test.kind, &get)
		invalid, _ := errors.AsType[*iqerr.InvalidError](err)
		switch {
		case test.bad == "" && err != nil:
			t.Errorf("%s %v: %v", test.kind, test.req, err)
		case test.bad != "" && (invalid == nil || invalid.Field != test.bad):
			t.Errorf("%s %v: %v, want %s", test.kind, test.req, err, test.bad)
		}
	}
}
