package router

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/routing"
)

// reportFromProto reads a heartbeat. The error names each wrong field and its value.
func reportFromProto(m *iqv1.HeartbeatRequest) (metadata.Report, error) {
	r := metadata.Report{
		Node: metadata.NodeID(m.GetNode()), Incarnation: metadata.Incarnation(m.GetIncarnation()), Sequence: m.GetSequence(),
		Application: m.GetApplication(), Address: m.GetAddress(), Rack: m.GetRack(),
		Generation: metadata.Generation(m.GetGeneration()), Full: m.GetFull(), Leaving: m.GetLeaving(),
		Interval: m.GetInterval().AsDuration(), InFlight: m.GetInFlight(), Hosts: hostsFromProto(m.GetHosts()),
		Draining: m.GetDraining(), Version: m.GetVersion(),
	}
	if len(r.Version) > metadata.MaxVersionBytes {
		r.Version = strings.ToValidUTF8(r.Version[:metadata.MaxVersionBytes], "")
	}
	inputs := make(map[metadata.Partition]metadata.Position, len(m.GetInputs()))
	for _, in := range m.GetInputs() {
		inputs[metadata.Partition{Store: in.GetStore(), Partition: in.GetPartition()}] = routing.PositionFromProto(in.GetInputPosition())
	}
	r.Replicas = make([]metadata.Replica, 0, len(m.GetReplicas()))
	for _, s := range m.GetReplicas() {
		rep := routing.ReplicaFromProto(s)
		rep.Input = inputs[rep.Partition]
		r.Replicas = append(r.Replicas, rep)
	}
	for _, s := range m.GetStores() {
		r.Stores = append(r.Stores, routing.StoreFromProto(s))
	}
	for _, c := range m.GetMisplaced() {
		r.Misplaced = append(r.Misplaced, metadata.Misplaced{
			Store: c.GetStore(), TopicPartition: metadata.TopicPartition{Topic: c.GetTopic(), Partition: c.GetPartition()},
			Records: c.GetRecords(), FirstOffset: c.GetFirstOffset(), FirstKey: c.GetFirstKey(), Expected: c.GetExpected(),
		})
	}
	for _, c := range m.GetDropped() {
		r.Dropped = append(r.Dropped, metadata.Dropped{Sink: c.GetSink(), Topic: c.GetTopic(), Records: c.GetRecords()})
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

// read is a checked and completed request.
type read struct {
	request   query.Get
	policy    routing.Policy
	wait      time.Duration
	partition int32     // routing.NoPartition: that of the key
	until     time.Time // the end of its time
	failures  int       // of nodes that were asked so far

	// For the journal.
	began    time.Time
	served   served
	attempts []*iqv1.Attempt // of the newest round
}

// readFromProto is newRead for a request that was decoded.
func readFromProto(m *iqv1.GetRequest, def routing.Policy, application string) (read, error) {
	return newRead(query.GetOf(m), def, application)
}

// newRead checks a request and completes its policy from the default one. The error holds an *iqerr.InvalidError for each
// wrong field.
func newRead(m query.Get, def routing.Policy, application string) (read, error) {
	var errs []error
	r := read{request: m, partition: routing.NoPartition, served: served{partition: routing.NoPartition}}
	if m.Store == "" {
		errs = append(errs, iqerr.Invalid("store", "", "must be a store's name"))
	}
	if err := checkApplication("application", m.Application, application); err != nil {
		errs = append(errs, err)
	}
	if m.HasPartition {
		if r.partition = m.Partition; r.partition < 0 {
			errs = append(errs, iqerr.Invalid("partition", r.partition, "must be 0 or more"))
		}
	}
	var err error
	if r.policy, r.wait, err = policyFromProto(m.Policy, def); err != nil {
		errs = append(errs, err)
	}
	return r, errors.Join(errs...)
}

// policyFromProto checks a policy and completes it from the default one; wait is 0 where none is given.
func policyFromProto(m *iqv1.ReadPolicy, def routing.Policy) (p routing.Policy, wait time.Duration, err error) {
	p, policyErr := routing.PolicyFromProto(m, def)
	wait, waitErr := routing.DurationFromProto("policy.wait", m.GetWait())
	var isolationErr error
	if iso := m.GetIsolation(); iqv1.ReadPolicy_Isolation_name[int32(iso)] == "" {
		isolationErr = iqerr.Invalid("policy.isolation", int32(iso), "is not a known isolation")
	}
	return p, max(0, wait), errors.Join(policyErr, waitErr, isolationErr)
}

// checkApplication refuses a request for another application than the one whose nodes report.
func checkApplication(field, asked, application string) error {
	if asked != "" && application != "" && asked != application {
		return iqerr.Invalid(field, asked, fmt.Sprintf("this router serves application %q", application))
	}
	return nil
}
