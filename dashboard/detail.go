package dashboard

import (
	"slices"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

// Detail is one partition with every figure as it is.
type Detail struct {
	Store  string `json:"store"`
	Number int32  `json:"number"`
	Status Status `json:"status"`
	// End is the largest end of the changelog that any node has told of, and Generation the newest that anybody was active
	// under; -1 while not known.
	End        int64           `json:"end"`
	Generation int64           `json:"generation"`
	Replicas   []ReplicaDetail `json:"replicas"`
}

// ReplicaDetail is one replica with every figure as it is. What is not known is -1.
type ReplicaDetail struct {
	Replica
	Address    string   `json:"address"`
	Rack       string   `json:"rack,omitempty"`
	Lease      bool     `json:"lease"`
	Generation int64    `json:"generation"`
	Position   int64    `json:"position"`
	LagOffsets int64    `json:"lag_offsets"`
	LagMs      float64  `json:"lag_ms"`
	SampleMs   float64  `json:"sample_ms"`
	HeardMs    float64  `json:"heard_ms"`
	Input      []Offset `json:"input,omitempty"`
}

// MakeDetail tells all of a partition at now. The error is that of View.Partition. One that nobody has held is no error.
func MakeDetail(v *metadata.View, id metadata.Partition, now time.Time) (*Detail, error) {
	d := &Detail{Store: id.Store, Number: id.Partition, End: unknown, Generation: unknown, Replicas: []ReplicaDetail{}}
	part := partitionOf(v, id, now, map[metadata.NodeID]*holding{})
	d.Status = part.Status
	pv, err := v.Partition(id)
	switch {
	case part.Status == StatusUnassigned:
		return d, nil
	case err != nil:
		return nil, err
	}
	d.End, d.Generation = pv.End(), max(unknown, int64(pv.Generation()))
	for i := range pv.Len() {
		h := pv.At(i)
		lag := pv.LagAt(h, now)
		r := ReplicaDetail{
			Replica: replicaOf(&h, lag), Address: h.Node.Address, Rack: h.Node.Rack, Lease: h.LeaseValid,
			Generation: int64(h.Generation), Position: lag.Position, LagOffsets: lag.Offsets,
			LagMs: millisOrUnknown(lag.Time), SampleMs: millisOrUnknown(lag.SampleAge), HeardMs: Millis(max(0, now.Sub(h.Node.Received))),
		}
		if lag.Offsets == unknown {
			r.SampleMs = unknown
		}
		for _, tp := range h.Input.Sorted() {
			r.Input = append(r.Input, Offset{Topic: tp.Topic, Partition: tp.Partition, Offset: h.Input[tp]})
		}
		d.Replicas = append(d.Replicas, r)
	}
	slices.SortStableFunc(d.Replicas, func(a, b ReplicaDetail) int { return compareCells(a.Replica, b.Replica) })
	return d, nil
}

func millisOrUnknown(d time.Duration) float64 {
	if d == unknown {
		return unknown
	}
	return Millis(d)
}

// Offset is the next offset of one input partition.
type Offset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// Millis is a time in milliseconds with three decimals, rounded up: a lag shown is never below the true one.
func Millis(d time.Duration) float64 {
	const perMilli = float64(time.Millisecond / time.Microsecond)
	return float64((d+time.Microsecond-1)/time.Microsecond) / perMilli
}
