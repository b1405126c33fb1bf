package router

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Domain and wire have the same numbers for roles and states; the tests hold them to that.

func roleToProto(r metadata.Role) iqv1.Role             { return iqv1.Role(r) }
func roleFromProto(r iqv1.Role) metadata.Role           { return metadata.Role(r) }
func stateToProto(s metadata.State) iqv1.ReplicaState   { return iqv1.ReplicaState(s) }
func stateFromProto(s iqv1.ReplicaState) metadata.State { return metadata.State(s) }

// reportFromProto reads a heartbeat. The error names each wrong field and its value.
func reportFromProto(m *iqv1.HeartbeatRequest) (metadata.Report, error) {
	r := metadata.Report{
		Node: metadata.NodeID(m.GetNode()), Incarnation: metadata.Incarnation(m.GetIncarnation()), Sequence: m.GetSequence(),
		Application: m.GetApplication(), Address: m.GetAddress(), Rack: m.GetRack(),
		Generation: metadata.Generation(m.GetGeneration()), Full: m.GetFull(), Leaving: m.GetLeaving(),
		Interval: m.GetInterval().AsDuration(), InFlight: m.GetInFlight(), Hosts: hostsFromProto(m.GetHosts()),
	}
	inputs := make(map[metadata.Partition]metadata.Position, len(m.GetInputs()))
	for _, in := range m.GetInputs() {
		inputs[metadata.Partition{Store: in.GetStore(), Partition: in.GetPartition()}] = positionFromProto(in.GetInputPosition())
	}
	r.Replicas = make([]metadata.Replica, 0, len(m.GetReplicas()))
	for _, s := range m.GetReplicas() {
		rep := replicaFromProto(s)
		rep.Input = inputs[rep.Partition]
		r.Replicas = append(r.Replicas, rep)
	}
	for _, s := range m.GetStores() {
		r.Stores = append(r.Stores, storeFromProto(s))
	}
	err := r.Validate()
	if r.Address != "" {
		err = errors.Join(err, checkAddress(r.Address))
	}
	if err != nil {
		return r, iqerr.Invalid("heartbeat", m.GetNode(), err.Error())
	}
	return r, nil
}

// checkAddress refuses what nobody can dial (S20): an address names a host and a port.
func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address: %q is not host:port: %w", address, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("address: %q has no port between 1 and 65535", address)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		return fmt.Errorf("address: %q names no host that a router could dial", address)
	}
	return nil
}

func replicaFromProto(s *iqv1.ReplicaStatus) metadata.Replica {
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

func storeFromProto(s *iqv1.StoreInfo) metadata.StoreInfo {
	return metadata.StoreInfo{
		Name: s.GetName(), Partitions: s.GetPartitions(), Kind: s.GetKind(), KeySerde: s.GetKeySerde(),
		ValueSerde: s.GetValueSerde(), Partitioner: s.GetPartitioner(), Changelog: s.GetChangelog(), ChangelogID: s.GetChangelogId(),
		SourceTopics: s.GetSourceTopics(), ActualPartitions: s.GetActualPartitions(),
	}
}

func storeToProto(s metadata.StoreInfo) *iqv1.StoreInfo {
	return &iqv1.StoreInfo{
		Name: s.Name, Partitions: s.Partitions, Kind: s.Kind, KeySerde: s.KeySerde, ValueSerde: s.ValueSerde,
		Partitioner: s.Partitioner, Changelog: s.Changelog, ChangelogId: s.ChangelogID, SourceTopics: s.SourceTopics, ActualPartitions: s.ActualPartitions,
	}
}

func hostsFromProto(m *iqv1.HostMap) *metadata.HostMap {
	if m == nil {
		return nil
	}
	h := &metadata.HostMap{Generation: metadata.Generation(m.GetGeneration())}
	for _, host := range m.GetHosts() {
		h.Hosts = append(h.Hosts, metadata.Host{
			Node: metadata.NodeID(host.GetNode()), Address: host.GetAddress(), Rack: host.GetRack(),
			Active: partitionsFromProto(host.GetActive()), Standby: partitionsFromProto(host.GetStandby()),
		})
	}
	return h
}

func partitionsFromProto(list []*iqv1.StorePartition) []metadata.Partition {
	parts := make([]metadata.Partition, 0, len(list))
	for _, p := range list {
		parts = append(parts, metadata.Partition{Store: p.GetStore(), Partition: p.GetPartition()})
	}
	return parts
}

func positionFromProto(m *iqv1.Position) metadata.Position {
	if m == nil {
		return nil
	}
	p := make(metadata.Position, len(m.GetOffsets()))
	for _, o := range m.GetOffsets() {
		p[metadata.TopicPartition{Topic: o.GetTopic(), Partition: o.GetPartition()}] = o.GetOffset()
	}
	return p
}

func positionToProto(p metadata.Position) *iqv1.Position {
	if p == nil {
		return nil
	}
	m := &iqv1.Position{}
	for _, tp := range p.Sorted() {
		m.Offsets = append(m.Offsets, &iqv1.PartitionOffset{Topic: tp.Topic, Partition: tp.Partition, Offset: p[tp]})
	}
	return m
}

// maxDuration is the longest time that a request may name; anything longer is a mistake in the unit.
const maxDuration = 365 * 24 * time.Hour

// read is a checked and completed request.
type read struct {
	request   *iqv1.GetRequest
	policy    Policy
	wait      time.Duration
	partition int32 // noPartition: that of the key
	failures  int   // of nodes that were asked so far
}

// noPartition says that the caller leaves the partition to the key.
const noPartition = math.MinInt32

// readFromProto checks a request and completes its policy from the default one. The error holds an
// *iqerr.InvalidError for each wrong field.
func readFromProto(m *iqv1.GetRequest, def Policy, application string) (read, error) {
	var errs []error
	r := read{request: m, partition: noPartition}
	if m.GetStore() == "" {
		errs = append(errs, iqerr.Invalid("store", "", "must be a store's name"))
	}
	if m.GetApplication() != "" && application != "" && m.GetApplication() != application {
		errs = append(errs, iqerr.Invalid("application", m.GetApplication(), fmt.Sprintf("this router serves application %q", application)))
	}
	if m.Partition != nil {
		if r.partition = m.GetPartition(); r.partition < 0 {
			errs = append(errs, iqerr.Invalid("partition", r.partition, "must be 0 or more"))
		}
	}
	var err error
	r.policy, err = policyFromProto(m.GetPolicy(), def)
	errs = append(errs, err)
	r.wait, err = durationFromProto("policy.wait", m.GetPolicy().GetWait())
	errs = append(errs, err)
	r.wait = max(0, r.wait)
	if iso := m.GetPolicy().GetIsolation(); iqv1.ReadPolicy_Isolation_name[int32(iso)] == "" {
		errs = append(errs, iqerr.Invalid("policy.isolation", int32(iso), "is not a known isolation"))
	}
	return r, errors.Join(errs...)
}

// policyFromProto checks a policy and completes it. A bound without a mode means any replica within that bound; no
// policy at all means the default one.
func policyFromProto(m *iqv1.ReadPolicy, def Policy) (Policy, error) {
	var errs []error
	p := unbounded(0)
	var err error
	p.MaxStaleness, err = durationFromProto("policy.max_staleness", m.GetMaxStaleness())
	errs = append(errs, err)
	if m != nil && m.MaxOffsetLag != nil {
		if p.MaxOffsetLag = m.GetMaxOffsetLag(); p.MaxOffsetLag < 0 {
			errs = append(errs, iqerr.Invalid("policy.max_offset_lag", p.MaxOffsetLag, "must be 0 or more"))
		}
	}
	bounded := p.MaxStaleness != NoBound || p.MaxOffsetLag != NoBound
	switch m.GetMode() {
	case iqv1.ReadPolicy_MODE_UNSPECIFIED:
		if bounded {
			p.Mode = ModeAny
		} else {
			p.Mode, p.MaxStaleness, p.MaxOffsetLag = def.Mode, def.MaxStaleness, def.MaxOffsetLag
		}
	case iqv1.ReadPolicy_MODE_STRONG:
		p.Mode = ModeStrong
	case iqv1.ReadPolicy_MODE_ACTIVE:
		p.Mode = ModeActive
	case iqv1.ReadPolicy_MODE_BOUNDED:
		p.Mode = ModeBounded
		if !bounded {
			errs = append(errs, iqerr.Invalid("policy.mode", m.GetMode().String(), "needs max_staleness, max_offset_lag or both"))
		}
	case iqv1.ReadPolicy_MODE_ANY:
		p.Mode = ModeAny
	default:
		errs = append(errs, iqerr.Invalid("policy.mode", int32(m.GetMode()), "is not a known mode"))
	}
	switch m.GetPrefer() {
	case iqv1.ReadPolicy_PREFER_UNSPECIFIED:
		p.Prefer = def.Prefer
	case iqv1.ReadPolicy_PREFER_ACTIVE:
		p.Prefer = PreferActive
	case iqv1.ReadPolicy_PREFER_LEAST_LOADED:
		p.Prefer = PreferLeastLoaded
	case iqv1.ReadPolicy_PREFER_NEAREST:
		p.Prefer = PreferNearest
	default:
		errs = append(errs, iqerr.Invalid("policy.prefer", int32(m.GetPrefer()), "is not a known order"))
	}
	p.Rack = m.GetRack()
	for i, o := range m.GetAtLeast().GetOffsets() {
		field := fmt.Sprintf("policy.at_least.offsets[%d].", i)
		if o.GetTopic() == "" {
			errs = append(errs, iqerr.Invalid(field+"topic", "", "must be a topic's name"))
		}
		if o.GetPartition() < 0 {
			errs = append(errs, iqerr.Invalid(field+"partition", o.GetPartition(), "must be 0 or more"))
		}
		if o.GetOffset() < 0 {
			errs = append(errs, iqerr.Invalid(field+"offset", o.GetOffset(), "must be 0 or more"))
		}
	}
	p.AtLeast = positionFromProto(m.GetAtLeast())
	return p, errors.Join(errs...)
}

// durationFromProto is NoBound for an absent duration.
func durationFromProto(field string, m *durationpb.Duration) (time.Duration, error) {
	if m == nil {
		return NoBound, nil
	}
	if err := m.CheckValid(); err != nil {
		return NoBound, iqerr.Invalid(field, fmt.Sprintf("seconds=%d nanos=%d", m.GetSeconds(), m.GetNanos()), "is not a duration")
	}
	d := m.AsDuration()
	switch {
	case d < 0:
		return NoBound, iqerr.Invalid(field, d, "must be 0s or more")
	case d > maxDuration:
		return NoBound, iqerr.Invalid(field, d, "must be at most "+maxDuration.String())
	}
	return d, nil
}

// toProto is the policy that nodes are given: complete, so that no node applies a default of its own. It has no wait,
// because the router waits itself, at no replica in particular.
func (p Policy) toProto(asked *iqv1.ReadPolicy) *iqv1.ReadPolicy {
	m := &iqv1.ReadPolicy{
		Mode: modeToProto(p.Mode), AtLeast: asked.GetAtLeast(), Isolation: asked.GetIsolation(),
	}
	if p.MaxStaleness != NoBound {
		m.MaxStaleness = durationpb.New(p.MaxStaleness)
	}
	if p.MaxOffsetLag != NoBound {
		m.MaxOffsetLag = &p.MaxOffsetLag
	}
	return m
}

func modeToProto(m Mode) iqv1.ReadPolicy_Mode {
	switch m {
	case ModeStrong:
		return iqv1.ReadPolicy_MODE_STRONG
	case ModeActive:
		return iqv1.ReadPolicy_MODE_ACTIVE
	case ModeBounded:
		return iqv1.ReadPolicy_MODE_BOUNDED
	case ModeAny:
		return iqv1.ReadPolicy_MODE_ANY
	}
	return iqv1.ReadPolicy_MODE_UNSPECIFIED
}
