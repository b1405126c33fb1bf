// Package wire tells the types of package metadata in the words of proto/iq/v1. It decides nothing.
package wire

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Status is a replica of a node that is reached at address. Lags that are not known are absent.
func Status(node, address string, r metadata.Replica) *iqv1.ReplicaStatus {
	s := &iqv1.ReplicaStatus{
		Node: node, Address: address, Store: r.Store, Partition: r.Partition.Partition,
		Role: role(r.Role), State: state(r.State),
		Generation: int64(r.Generation), Position: r.Lag.Position, EndPosition: r.Lag.End,
		LeaseValid: r.LeaseValid,
	}
	if r.Lag.Offsets != metadata.LagUnknown {
		s.OffsetLag = &r.Lag.Offsets
		s.SampleAge = durationpb.New(r.Lag.SampleAge)
	}
	if r.Lag.Time != metadata.LagUnknown {
		s.TimeLag = durationpb.New(r.Lag.Time)
	}
	return s
}

func role(r metadata.Role) iqv1.Role {
	switch r {
	case metadata.RoleActive:
		return iqv1.Role_ROLE_ACTIVE
	case metadata.RoleStandby:
		return iqv1.Role_ROLE_STANDBY
	case metadata.RoleWarmup:
		return iqv1.Role_ROLE_WARMUP
	default:
		return iqv1.Role_ROLE_UNSPECIFIED
	}
}

func state(s metadata.State) iqv1.ReplicaState {
	switch s {
	case metadata.StateRestoring:
		return iqv1.ReplicaState_REPLICA_STATE_RESTORING
	case metadata.StateRunning:
		return iqv1.ReplicaState_REPLICA_STATE_RUNNING
	case metadata.StateSuspended:
		return iqv1.ReplicaState_REPLICA_STATE_SUSPENDED
	case metadata.StateClosed:
		return iqv1.ReplicaState_REPLICA_STATE_CLOSED
	default:
		return iqv1.ReplicaState_REPLICA_STATE_UNSPECIFIED
	}
}

// Position is an input position, sorted; nil for nil.
func Position(p metadata.Position) *iqv1.Position {
	if p == nil {
		return nil
	}
	out := &iqv1.Position{}
	for _, tp := range p.Sorted() {
		out.Offsets = append(out.Offsets, &iqv1.PartitionOffset{Topic: tp.Topic, Partition: tp.Partition, Offset: p[tp]})
	}
	return out
}

// PositionOf is an input position; of a partition that is there more than once the largest offset counts. nil for nil.
func PositionOf(p *iqv1.Position) metadata.Position {
	if p == nil {
		return nil
	}
	out := make(metadata.Position, len(p.GetOffsets()))
	for _, o := range p.GetOffsets() {
		tp := metadata.TopicPartition{Topic: o.GetTopic(), Partition: o.GetPartition()}
		out[tp] = max(out[tp], o.GetOffset())
	}
	return out
}

// Store describes a store. Durations of 0 are absent.
func Store(s metadata.StoreInfo) *iqv1.StoreInfo {
	m := &iqv1.StoreInfo{
		Name: s.Name, Partitions: s.Partitions, Kind: s.Kind, KeySerde: s.KeySerde, ValueSerde: s.ValueSerde,
		Partitioner: s.Partitioner, Changelog: s.Changelog, SourceTopics: s.SourceTopics, ActualPartitions: s.ActualPartitions,
		ChangelogId: s.ChangelogID, Followed: s.Followed,
	}
	if s.WindowSize > 0 {
		m.WindowSize = durationpb.New(s.WindowSize)
	}
	if s.Retention > 0 {
		m.Retention = durationpb.New(s.Retention)
	}
	return m
}

// Misplaced are counts of misplaced records, in their order.
func Misplaced(list []metadata.Misplaced) []*iqv1.Misplaced {
	out := make([]*iqv1.Misplaced, 0, len(list))
	for _, m := range list {
		out = append(out, &iqv1.Misplaced{
			Store: m.Store, Topic: m.Topic, Partition: m.Partition, Records: m.Records,
			FirstOffset: m.FirstOffset, FirstKey: m.FirstKey, Expected: m.Expected,
		})
	}
	return out
}

// Dropped are counts of dropped records, in their order.
func Dropped(list []metadata.Dropped) []*iqv1.Dropped {
	out := make([]*iqv1.Dropped, 0, len(list))
	for _, d := range list {
		out = append(out, &iqv1.Dropped{Sink: d.Sink, Topic: d.Topic, Records: d.Records})
	}
	return out
}

// HostMap is a whole assignment.
func HostMap(m metadata.HostMap) *iqv1.HostMap {
	out := &iqv1.HostMap{Generation: int64(m.Generation)}
	for _, h := range m.Hosts {
		ph := &iqv1.Host{Node: string(h.Node), Address: h.Address, Rack: h.Rack}
		for _, p := range h.Active {
			ph.Active = append(ph.Active, &iqv1.StorePartition{Store: p.Store, Partition: p.Partition})
		}
		for _, p := range h.Standby {
			ph.Standby = append(ph.Standby, &iqv1.StorePartition{Store: p.Store, Partition: p.Partition})
		}
		out.Hosts = append(out.Hosts, ph)
	}
	return out
}
