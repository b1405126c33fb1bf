package wire

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// randomReplica is a replica of some kind, also of kinds that there are not.
func randomReplica(r *rand.Rand) metadata.Replica {
	lag := func() int64 {
		switch r.IntN(4) {
		case 0:
			return metadata.LagUnknown
		case 1:
			return 0
		}
		return r.Int64N(1 << r.IntN(62))
	}
	rep := metadata.Replica{
		Partition: metadata.Partition{Store: strings.Repeat("s", r.IntN(300)), Partition: int32(r.IntN(300))},
		Role:      metadata.Role(r.IntN(5)), State: metadata.State(r.IntN(6)), Generation: metadata.Generation(r.IntN(3)),
		LeaseValid: r.IntN(2) == 0,
		Lag: metadata.LagInfo{
			Position: lag(), End: lag(), Offsets: lag(), Time: time.Duration(lag()), SampleAge: time.Duration(r.Int64N(1 << 40)),
		},
	}
	if n := r.IntN(4); n > 0 {
		rep.Input = metadata.Position{}
		for i := range n - 1 + r.IntN(2) {
			rep.Input[metadata.TopicPartition{Topic: strings.Repeat("t", r.IntN(200)), Partition: int32(i)}] = r.Int64N(1 << r.IntN(62))
		}
	}
	return rep
}

// TestWhatIsAppendedIsWhatTheMessagesSay holds the bytes written by hand to the generated code.
func TestWhatIsAppendedIsWhatTheMessagesSay(t *testing.T) {
	const served, input protowire.Number = 4, 5 // of GetResponse
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		rep := randomReplica(r)
		b := AppendStatus(nil, served, "node-a", "host:7070", &rep)
		b = AppendPosition(b, input, rep.Input)
		got, want := &iqv1.GetResponse{}, &iqv1.GetResponse{Served: Status("node-a", "host:7070", rep), InputPosition: Position(rep.Input)}
		if err := proto.Unmarshal(b, got); err != nil || !proto.Equal(got, want) {
			t.Fatalf("%+v: got %v, %v, want %v", rep, got, err, want)
		}
		if size := proto.Size(want); size != len(b) {
			t.Fatalf("%+v: %d bytes, the generated code writes %d", rep, len(b), size)
		}
	}
}
