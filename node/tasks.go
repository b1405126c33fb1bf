package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/iqgate/iqgate/assign"
	"github.com/iqgate/iqgate/follow"
	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/topology"
)

// A taskInfo is what never changes about a task: its inputs and its stores' partitions.
type taskInfo struct {
	id     metadata.TaskID
	sub    *topology.Subtopology
	inputs []metadata.TopicPartition // sorted
	stores []storeInfo
	own    bool // the store's changelog is its input
}

// A storeInfo is one store of a task.
type storeInfo struct {
	spec      topology.StoreSpec
	id        metadata.Partition
	changelog metadata.TopicPartition
}

// A taskTable is every task of the application. The partition counts are those of the topics, never of who happens to be
// assigned. What has stores stays as it was when the node started; tasks without stores are added when their topics get
// more partitions.
type taskTable struct {
	topo    *topology.Topology // nil when the stores are followed
	byStore map[metadata.Partition]*taskInfo
	counts  map[string]int32 // partitions by store
	stores  map[string]topology.StoreSpec
	met     committedCounts // what the tasks have met on this node
	// followed says that nobody runs the tasks: their stores' changelogs are another application's.
	followed bool
	// all is replaced, never written.
	all atomic.Pointer[taskList]
}

type taskList struct {
	byID map[metadata.TaskID]*taskInfo
	plan []assign.Task // sorted
}

// task is the task of that id, nil if there is none.
func (t *taskTable) task(id metadata.TaskID) *taskInfo { return t.all.Load().byID[id] }

// inputs are the task's input partitions, none if there is no such task.
func (t *taskTable) inputs(id metadata.TaskID) []metadata.TopicPartition {
	if info := t.task(id); info != nil {
		return info.inputs
	}
	return nil
}

// planned are all tasks, as the assignment is planned with.
func (t *taskTable) planned() []assign.Task { return t.all.Load().plan }

// grow adds the tasks of topics that have more partitions now and whose sub-topology has no stores: nobody's keys move by
// that. It says how many there are. A topic of a sub-topology with stores is another matter, see running.checkCounts.
func (t *taskTable) grow(counts topology.Counts) (int, error) {
	old := t.all.Load()
	if t.followed {
		return 0, nil // every task has a store
	}
	next := &taskList{byID: maps.Clone(old.byID), plan: slices.Clone(old.plan)}
	for _, sub := range t.topo.Subtopologies() {
		if len(sub.Stores) > 0 {
			continue
		}
		var have []int32
		for _, topic := range sub.SourceTopics {
			n, ok := counts(topic)
			if !ok {
				return 0, fmt.Errorf("topic %s does not exist", topic)
			}
			have = append(have, n)
		}
		if len(slices.Compact(slices.Clone(have))) > 1 {
			return 0, fmt.Errorf("topics %s are read together but have %v partitions", strings.Join(sub.SourceTopics, ", "), have)
		}
		for p := range have[0] {
			info := newTaskInfo(sub, p)
			if next.byID[info.id] == nil {
				next.byID[info.id] = info
				next.plan = append(next.plan, assign.Task{ID: info.id})
			}
		}
	}
	added := len(next.plan) - len(old.plan)
	if added > 0 {
		slices.SortFunc(next.plan, func(a, b assign.Task) int { return a.ID.Compare(b.ID) })
		t.all.Store(next)
	}
	return added, nil
}

func newTaskInfo(sub *topology.Subtopology, partition int32) *taskInfo {
	info := &taskInfo{id: metadata.TaskID{Subtopology: sub.ID, Partition: partition}, sub: sub}
	for _, topic := range sub.SourceTopics {
		info.inputs = append(info.inputs, metadata.TopicPartition{Topic: topic, Partition: partition})
	}
	for _, spec := range sub.Stores {
		info.stores = append(info.stores, storeInfo{
			spec:      spec,
			id:        metadata.Partition{Store: spec.Name, Partition: partition},
			changelog: metadata.TopicPartition{Topic: spec.Changelog, Partition: partition},
		})
	}
	return info
}

// newTaskTable lays the tasks out over counts, the partition counts of the source topics.
func newTaskTable(t *topology.Topology, counts topology.Counts) (*taskTable, error) {
	ids, err := t.Tasks(counts)
	if err != nil {
		return nil, err
	}
	table := &taskTable{
		topo:    t,
		byStore: make(map[metadata.Partition]*taskInfo),
		counts:  make(map[string]int32),
		stores:  make(map[string]topology.StoreSpec),
	}
	list := &taskList{byID: make(map[metadata.TaskID]*taskInfo, len(ids))}
	subs := make(map[int32]*topology.Subtopology)
	for _, s := range t.Subtopologies() {
		subs[s.ID] = s
	}
	for _, id := range ids {
		sub := subs[id.Subtopology]
		if sub == nil {
			return nil, fmt.Errorf("task %s has no sub-topology", id)
		}
		info := newTaskInfo(sub, id.Partition)
		for _, si := range info.stores {
			table.byStore[si.id] = info
			table.stores[si.spec.Name] = si.spec
			table.counts[si.spec.Name] = max(table.counts[si.spec.Name], id.Partition+1)
		}
		list.byID[info.id] = info
		list.plan = append(list.plan, assign.Task{ID: info.id, Stateful: len(info.stores) > 0})
	}
	slices.SortFunc(list.plan, func(a, b assign.Task) int { return a.ID.Compare(b.ID) })
	table.all.Store(list)
	return table, nil
}

// newReplica makes the replica of a store partition, which must exist.
func (t *taskTable) newReplica(set *replicaSet, id metadata.Partition) *replica {
	info := t.byStore[id]
	for _, s := range info.stores {
		if s.id == id {
			return newReplica(set, id, info.id, s.changelog, follow.Schema(s.spec), set.storeDir(id))
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
			if info := t.task(id); info != nil {
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
				if info := t.task(id); info != nil {
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

// unknownStore is the refusal of a store that the application does not have.
func (t *taskTable) unknownStore(name string) error {
	return &iqerr.StoreUnknownError{Store: name, Known: slices.Sorted(maps.Keys(t.stores))}
}

// sources are the topics that the store's task reads.
func (t *taskTable) sources(spec topology.StoreSpec) []string {
	if info := t.byStore[metadata.Partition{Store: spec.Name}]; info != nil {
		return info.sub.SourceTopics
	}
	return nil
}
