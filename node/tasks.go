package node

import (
	"fmt"
	"slices"

	"github.com/iqgate/iqgate/assign"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/topology"
)

// A taskInfo is what never changes about a task: its inputs and its stores' partitions.
type taskInfo struct {
	id     metadata.TaskID
	sub    *topology.Subtopology
	inputs []metadata.TopicPartition // sorted
	stores []storeInfo
}

// A storeInfo is one store of a task.
type storeInfo struct {
	spec      topology.StoreSpec
	id        metadata.Partition
	changelog metadata.TopicPartition
}

// A taskTable is every task of the application. The partition counts are those of the topics, never of who happens to be
// assigned, as they were when the node started.
type taskTable struct {
	byID    map[metadata.TaskID]*taskInfo
	byStore map[metadata.Partition]*taskInfo
	plan    []assign.Task // sorted
	counts  map[string]int32
	stores  map[string]topology.StoreSpec
}

// newTaskTable lays the tasks out over counts, the partition counts of the source topics.
func newTaskTable(t *topology.Topology, counts map[string]int32) (*taskTable, error) {
	ids, err := t.Tasks(func(topic string) (int32, bool) {
		n, ok := counts[topic]
		return n, ok
	})
	if err != nil {
		return nil, err
	}
	table := &taskTable{
		byID:    make(map[metadata.TaskID]*taskInfo, len(ids)),
		byStore: make(map[metadata.Partition]*taskInfo),
		counts:  make(map[string]int32),
		stores:  make(map[string]topology.StoreSpec),
	}
	subs := make(map[int32]*topology.Subtopology)
	for _, s := range t.Subtopologies() {
		subs[s.ID] = s
	}
	for _, id := range ids {
		sub := subs[id.Subtopology]
		if sub == nil {
			return nil, fmt.Errorf("task %s has no sub-topology", id)
		}
		info := &taskInfo{id: metadata.TaskID(id), sub: sub}
		for _, topic := range sub.SourceTopics {
			info.inputs = append(info.inputs, metadata.TopicPartition{Topic: topic, Partition: id.Partition})
		}
		for _, spec := range sub.Stores {
			si := storeInfo{
				spec:      spec,
				id:        metadata.Partition{Store: spec.Name, Partition: id.Partition},
				changelog: metadata.TopicPartition{Topic: spec.Changelog, Partition: id.Partition},
			}
			info.stores = append(info.stores, si)
			table.byStore[si.id] = info
			table.stores[spec.Name] = spec
			table.counts[spec.Name] = max(table.counts[spec.Name], id.Partition+1)
		}
		table.byID[info.id] = info
		table.plan = append(table.plan, assign.Task{ID: info.id, Stateful: len(info.stores) > 0})
	}
	slices.SortFunc(table.plan, func(a, b assign.Task) int { return a.ID.Compare(b.ID) })
	return table, nil
}

// newReplica makes the replica of a store partition, which must exist.
func (t *taskTable) newReplica(set *replicaSet, id metadata.Partition) *replica {
	info := t.byStore[id]
	for _, s := range info.stores {
		if s.id == id {
			return newReplica(set, id, info.id, s.changelog, set.storeDir(id))
		}
	}
	panic("store " + id.String() + " has no task") // byStore is made of the tasks' stores
}

// roles are the roles of this node's store partitions in what it was given. Tasks that the table does not know, of a
// leader with another topology, are left out.
func (t *taskTable) roles(g assign.Given) map[metadata.Partition]metadata.Role {
	roles := make(map[metadata.Partition]metadata.Role)
	add := func(ids []metadata.TaskID, role metadata.Role) {
		for _, id := range ids {
			if info := t.byID[id]; info != nil {
				for _, s := range info.stores {
					roles[s.id] = role
				}
			}
		}
	}
	add(g.Warmup, metadata.RoleWarmup)
	add(g.Standby, metadata.RoleStandby)
	add(g.Active, metadata.RoleActive)
	return roles
}

// hostMap tells the assignment in store partitions, as routers and callers want it.
func (t *taskTable) hostMap(m assign.Map, generation metadata.Generation) metadata.HostMap {
	hm := metadata.HostMap{Generation: generation}
	partitions := func(lists ...[]metadata.TaskID) []metadata.Partition {
		var ps []metadata.Partition
		for _, ids := range lists {
			for _, id := range ids {
				if info := t.byID[id]; info != nil {
					for _, s := range info.stores {
						ps = append(ps, s.id)
					}
				}
			}
		}
		slices.SortFunc(ps, metadata.Partition.Compare)
		return ps
	}
	for _, h := range m.Hosts {
		hm.Hosts = append(hm.Hosts, metadata.Host{
			Node: h.Node, Address: h.Address, Rack: h.Rack,
			Active: partitions(h.Active), Standby: partitions(h.Standby, h.Warmup),
		})
	}
	return hm
}
