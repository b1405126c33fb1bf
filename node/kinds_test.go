package node

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/store"
)

// Stream times come back from the text of a commit as they were, as far as they fit, and the text is never longer than a
// broker takes.
func TestStreamTimesTravelWithinTheBrokersLimit(t *testing.T) {
	t.Parallel()
	for _, processors := range []int{0, 1, 50, 80, 500, 20_000} {
		s := streamTimes{Task: 1_700_000_000_000, Processors: make(map[string]int64)}
		for i := range processors {
			s.Processors[fmt.Sprintf("KSTREAM-AGGREGATE-%010d", i)] = s.Task - int64(i)
		}
		text := s.encode()
		if len(text) > 4096 {
			t.Errorf("%d processors: %d bytes", processors, len(text))
		}
		got := decodeTimes(text)
		if got.Task != s.Task || processors <= 80 && !maps.Equal(got.Processors, s.Processors) {
			t.Errorf("%d processors: came back as %v", processors, got)
		}
		for name, ms := range got.Processors {
			if s.Processors[name] != ms {
				t.Errorf("%s came back as %d", name, ms)
			}
		}
	}
}

// What somebody else keeps beside an offset says nothing, and the largest time of several commits counts.
func TestForeignCommitMetadataIsIgnored(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "x", "AgAAAYvP5gRAAAAAAA==", `{"task":5}`, "iqgate-times-1:", "iqgate-times-1:{", `iqgate-times-1:{"task":"5"}`, `iqgate-times-2:{"task":5}`} {
		if got := decodeTimes(text); got.Task != -1 || len(got.Processors) != 0 {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
	commits := map[metadata.TopicPartition]kafka.Commit{
		{Topic: "a"}: {Metadata: streamTimes{Task: 7, Processors: map[string]int64{"p": 7, "q": 3}}.encode()},
		{Topic: "b"}: {Metadata: streamTimes{Task: 9, Processors: map[string]int64{"p": 9, "q": 2}}.encode()},
		{Topic: "c"}: {Metadata: "somebody else's"},
	}
	want := map[string]int64{"p": 9, "q": 3}
	if got := committedTimes(commits); got.Task != 9 || !maps.Equal(got.Processors, want) {
		t.Errorf("%v", got)
	}
}

// Records of a changelog that are none of the store's kind are left out and counted; the others are kept.
func TestRecordsOfAnotherKindAreLeftOut(t *testing.T) {
	t.Parallel()
	window := store.Schema{Kind: store.KindWindow, WindowSize: time.Minute, Retention: time.Hour}
	key, _, _, err := window.ToChangelog(store.Change{Key: store.WindowKey([]byte("k"), 60_000), Value: []byte("v")})
	if err != nil {
		t.Fatal(err)
	}
	b := kafka.Batch{Records: []*kgo.Record{
		{Offset: 4, Key: []byte("short"), Value: []byte("x")},
		{Offset: 5, Key: key, Value: []byte("v")},
		{Offset: 6, Value: []byte("no key")},
		{Offset: 7, Key: key, Value: []byte("w")},
	}}
	changes, foreign, first := changesOf(window, b, store.NoStreamTime)
	if len(changes) != 1 || string(changes[0].Value) != "w" || foreign != 2 || first == nil {
		t.Errorf("%v, %d, %v", changes, foreign, first)
	}
	if re, ok := errors.AsType[*store.RecordError](first); !ok || re.Bytes != len("short") {
		t.Errorf("the first is %v", first)
	}
}
