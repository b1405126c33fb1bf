package router

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/routing"
)

// instanceToProto tells of an instance; of one store alone unless store is empty. Misplaced shows keys, and who may know of one
// store may not know of all.
func instanceToProto(in *metadata.Instance, store string) *iqv1.Instance {
	return &iqv1.Instance{
		Node: string(in.ID), Address: in.Address, Rack: in.Rack, Alive: in.Alive, Suspect: in.Suspect,
		Incarnation: int64(in.Incarnation), Generation: int64(in.Generation),
		ActivePartitions: topicPartitionsToProto(in.ActivePartitions), StandbyPartitions: topicPartitionsToProto(in.StandbyPartitions),
		ActiveStores: in.ActiveStores, StandbyStores: in.StandbyStores,
		Replicas: statusesToProto(in.Replicas), LastHeard: durationpb.New(in.LastHeard),
		Sequence: in.Sequence, Draining: in.Draining, Interval: durationpb.New(in.Interval), InFlight: in.InFlight, Refused: in.Refused,
		Inputs: inputsToProto(in.Replicas), Misplaced: misplacedToProto(in.Misplaced, store), Dropped: droppedToProto(in.Dropped), Version: in.Version,
	}
}

func instancesToProto(list []metadata.Instance, store string) []*iqv1.Instance {
	m := make([]*iqv1.Instance, 0, len(list))
	for i := range list {
		m = append(m, instanceToProto(&list[i], store))
	}
	return m
}

// inputsToProto lists the input positions that are known.
func inputsToProto(list []metadata.ReplicaStatus) []*iqv1.ReplicaInput {
	var m []*iqv1.ReplicaInput
	for i := range list {
		if r := &list[i]; r.Input != nil {
			m = append(m, &iqv1.ReplicaInput{
				Store: r.Store, Partition: r.Partition.Partition, InputPosition: routing.PositionToProto(r.Input),
			})
		}
	}
	return m
}

func misplacedToProto(list []metadata.Misplaced, store string) []*iqv1.Misplaced {
	var m []*iqv1.Misplaced
	for _, c := range list {
		if store != "" && c.Store != store {
			continue
		}
		m = append(m, &iqv1.Misplaced{
			Store: c.Store, Topic: c.Topic, Partition: c.Partition, Records: c.Records,
			FirstOffset: c.FirstOffset, FirstKey: c.FirstKey, Expected: c.Expected,
		})
	}
	return m
}

func droppedToProto(list []metadata.Dropped) []*iqv1.Dropped {
	var m []*iqv1.Dropped
	for _, c := range list {
		m = append(m, &iqv1.Dropped{Sink: c.Sink, Topic: c.Topic, Records: c.Records})
	}
	return m
}

func storesToProto(list []metadata.StoreInfo) []*iqv1.StoreInfo {
	m := make([]*iqv1.StoreInfo, 0, len(list))
	for _, info := range list {
		m = append(m, routing.StoreToProto(info))
	}
	return m
}

func topicPartitionsToProto(list []metadata.TopicPartition) []*iqv1.TopicPartition {
	m := make([]*iqv1.TopicPartition, 0, len(list))
	for _, tp := range list {
		m = append(m, &iqv1.TopicPartition{Topic: tp.Topic, Partition: tp.Partition})
	}
	return m
}

func statusesToProto(list []metadata.ReplicaStatus) []*iqv1.ReplicaStatus {
	m := make([]*iqv1.ReplicaStatus, 0, len(list))
	for i := range list {
		m = append(m, routing.StatusToProto(&list[i]))
	}
	return m
}
