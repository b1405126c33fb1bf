// Package cluster sums up what a router tells of its nodes: who is active of what, and what is missing until all is well.
package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Partition is a store's partition.
type Partition struct {
	Store  string
	Number int32
}

// A Cluster is who holds what, as a router sees it.
type Cluster struct {
	Nodes   []Node               // by name
	Actives map[Partition]string // the node of the running active
	Running map[Partition]int    // running standbys
}

// Node is one node: its replicas by what they are, and the largest lags of the running standbys.
type Node struct {
	Name                               string
	Alive, Suspect                     bool
	Active, Standby, Restoring, Paused int
	LagOffsets                         int64
	LagTime                            time.Duration
}

// Of folds what a router tells of the instances.
func Of(instances []*iqv1.Instance) *Cluster {
	c := &Cluster{Actives: map[Partition]string{}, Running: map[Partition]int{}}
	for _, in := range instances {
		v := Node{Name: in.GetNode(), Alive: in.GetAlive(), Suspect: in.GetSuspect()}
		for _, s := range in.GetReplicas() {
			p := Partition{s.GetStore(), s.GetPartition()}
			switch s.GetState() {
			case iqv1.ReplicaState_REPLICA_STATE_RUNNING:
				if s.GetRole() == iqv1.Role_ROLE_ACTIVE {
					v.Active++
					if v.Alive && !v.Suspect && s.GetLeaseValid() {
						c.Actives[p] = v.Name
					}
					continue
				}
				v.Standby++
				if v.Alive && !v.Suspect {
					c.Running[p]++
				}
				v.LagOffsets = max(v.LagOffsets, s.GetOffsetLag())
				v.LagTime = max(v.LagTime, s.GetTimeLag().AsDuration())
			case iqv1.ReplicaState_REPLICA_STATE_RESTORING:
				v.Restoring++
			case iqv1.ReplicaState_REPLICA_STATE_SUSPENDED:
				v.Paused++
			case iqv1.ReplicaState_REPLICA_STATE_CLOSED, iqv1.ReplicaState_REPLICA_STATE_UNSPECIFIED:
			}
		}
		c.Nodes = append(c.Nodes, v)
	}
	slices.SortFunc(c.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return c
}

// Missing says what the cluster lacks of so many nodes, store partitions and standbys of each, or nothing.
func (c *Cluster) Missing(nodes, partitions, standbys int) string {
	alive := 0
	for _, v := range c.Nodes {
		if v.Alive {
			alive++
		}
	}
	if alive < nodes {
		return fmt.Sprintf("nodes: %d of %d report", alive, nodes)
	}
	copies := 0
	for _, n := range c.Running {
		copies += min(n, standbys)
	}
	if len(c.Actives) < partitions || copies < partitions*standbys {
		return fmt.Sprintf("replicas: %d of %d actives and %d of %d standbys are running", len(c.Actives), partitions, copies, partitions*standbys)
	}
	return ""
}

// Find gives the view of a node.
func (c *Cluster) Find(name string) (Node, bool) {
	i := slices.IndexFunc(c.Nodes, func(v Node) bool { return v.Name == name })
	if i < 0 {
		return Node{}, false
	}
	return c.Nodes[i], true
}

// Busiest is the node with the most actives, of equal ones the first by name.
func (c *Cluster) Busiest() (name string, of []Partition) {
	held := map[string][]Partition{}
	for p, n := range c.Actives {
		held[n] = append(held[n], p)
	}
	for n, ps := range held {
		if len(ps) > len(of) || len(ps) == len(of) && strings.Compare(n, name) < 0 {
			name, of = n, ps
		}
	}
	slices.SortFunc(of, func(a, b Partition) int {
		return cmp.Or(cmp.Compare(a.Store, b.Store), cmp.Compare(a.Number, b.Number))
	})
	return name, of
}
