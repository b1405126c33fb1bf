package client

import (
	"maps"
	"slices"
	"time"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Row is one entry of a store.
type Row struct {
	// Key and Value are as the store's serdes wrote them; Value is nil with KeysOnly. They belong to the caller.
	Key, Value []byte
	// Timestamp is the record timestamp of the value.
	Timestamp time.Time
	// Partition is the store partition that has the entry.
	Partition int32
	// Start and End are those of a window or session, or when a version began and ended to be valid. A window's and a
	// version's end are exclusive, a session's is included. Both are zero in a key-value store, End for the latest version.
	Start, End time.Time
	// Deleted says that the version is a deletion, where Times of a versioned store were asked for.
	Deleted bool
}

func rowOf(m *iqv1.Row) Row {
	r := Row{
		Key: m.GetKey(), Value: m.GetValue(), Timestamp: time.UnixMilli(m.GetTimestampMs()), Partition: m.GetPartition(), Deleted: m.GetDeleted(),
	}
	if m.StartMs != nil {
		r.Start = time.UnixMilli(m.GetStartMs())
	}
	if m.EndMs != nil {
		r.End = time.UnixMilli(m.GetEndMs())
	}
	return r
}

// reads are who answered for each partition, the newest.
type reads map[int32]*iqv1.PartitionRead

func (rs reads) note(list []*iqv1.PartitionRead) {
	for _, r := range list {
		rs[r.GetPartition()] = r
	}
}

// sorted is by partition.
func (rs reads) sorted() []*iqv1.PartitionRead {
	list := make([]*iqv1.PartitionRead, 0, len(rs))
	for _, p := range slices.Sorted(maps.Keys(rs)) {
		list = append(list, rs[p])
	}
	return list
}
