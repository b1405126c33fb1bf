package routing

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Domain and wire have the same numbers for roles and states; the tests hold them to that.

func roleToProto(r metadata.Role) iqv1.Role             { return iqv1.Role(r) }
func roleFromProto(r iqv1.Role) metadata.Role           { return metadata.Role(r) }
func stateToProto(s metadata.State) iqv1.ReplicaState   { return iqv1.ReplicaState(s) }
func stateFromProto(s iqv1.ReplicaState) metadata.State { return metadata.State(s) }

// ReplicaFromProto is what the wire says of a replica, without its input position, which the wire has apart. A lag that
// is absent is metadata.LagUnknown.
func ReplicaFromProto(s *iqv1.ReplicaStatus) metadata.Replica {
	rep := metadata.Replica{
		Partition: metadata.Partition{Store: s.GetStore(), Partition: s.GetPartition()},
		Role:      roleFromProto(s.GetRole()), State: stateFromProto(s.GetState()),
		Generation: metadata.Generation(s.GetGeneration()), LeaseValid: s.GetLeaseValid(),
		Lag: metadata.LagInfo{
			Position: s.GetPosition(), End: s.GetEndPosition(), SampleAge: s.GetSampleAge().AsDuration(),
			Offsets: metadata.LagUnknown, Time: metadata.LagUnknown,
		},
	}
	if s.OffsetLag != nil {
		rep.Lag.Offsets = s.GetOffsetLag()
	} else {
		rep.Lag.End = metadata.LagUnknown // no sample, so the number on the wire means nothing
	}
	if s.GetTimeLag() != nil {
		rep.Lag.Time = s.GetTimeLag().AsDuration()
	}
	return rep
}

// StoreFromProto is what the wire says of a store.
func StoreFromProto(s *iqv1.StoreInfo) metadata.StoreInfo {
	return metadata.StoreInfo{
		Name: s.GetName(), Partitions: s.GetPartitions(), Kind: s.GetKind(), KeySerde: s.GetKeySerde(),
		ValueSerde: s.GetValueSerde(), Partitioner: s.GetPartitioner(), Changelog: s.GetChangelog(), ChangelogID: s.GetChangelogId(),
		SourceTopics: s.GetSourceTopics(), ActualPartitions: s.GetActualPartitions(),
		WindowSize: s.GetWindowSize().AsDuration(), Retention: s.GetRetention().AsDuration(), Followed: s.GetFollowed(),
	}
}

// StoreToProto is a store as the wire has it.
func StoreToProto(s metadata.StoreInfo) *iqv1.StoreInfo {
	m := &iqv1.StoreInfo{
		Name: s.Name, Partitions: s.Partitions, Kind: s.Kind, KeySerde: s.KeySerde, ValueSerde: s.ValueSerde,
		Partitioner: s.Partitioner, Changelog: s.Changelog, ChangelogId: s.ChangelogID, SourceTopics: s.SourceTopics, ActualPartitions: s.ActualPartitions,
		Followed: s.Followed,
	}
	if s.WindowSize > 0 {
		m.WindowSize = durationpb.New(s.WindowSize)
	}
	if s.Retention > 0 {
		m.Retention = durationpb.New(s.Retention)
	}
	return m
}

// StatusToProto leaves out what is not known: a lag that is absent is not 0.
func StatusToProto(s *metadata.ReplicaStatus) *iqv1.ReplicaStatus {
	m := &iqv1.ReplicaStatus{
		Node: string(s.Node.ID), Address: s.Node.Address, Store: s.Store, Partition: s.Partition.Partition,
		Role: roleToProto(s.Role), State: stateToProto(s.State), Generation: int64(s.Generation), LeaseValid: s.LeaseValid,
		Position: max(0, s.Lag.Position), EndPosition: max(0, s.Lag.End),
	}
	if s.Lag.Offsets != metadata.LagUnknown {
		m.OffsetLag = &s.Lag.Offsets
		m.SampleAge = durationpb.New(s.Lag.SampleAge)
	}
	if s.Lag.Time != metadata.LagUnknown {
		m.TimeLag = durationpb.New(s.Lag.Time)
	}
	return m
}

// PositionFromProto is nil for an absent position.
func PositionFromProto(m *iqv1.Position) metadata.Position {
	if m == nil {
		return nil
	}
	p := make(metadata.Position, len(m.GetOffsets()))
	for _, o := range m.GetOffsets() {
		p[metadata.TopicPartition{Topic: o.GetTopic(), Partition: o.GetPartition()}] = o.GetOffset()
	}
	return p
}

// PositionToProto lists the partitions in order.
func PositionToProto(p metadata.Position) *iqv1.Position {
	if p == nil {
		return nil
	}
	m := &iqv1.Position{}
	for _, tp := range p.Sorted() {
		m.Offsets = append(m.Offsets, &iqv1.PartitionOffset{Topic: tp.Topic, Partition: tp.Partition, Offset: p[tp]})
	}
	return m
}
