package auth

import (
	"bytes"
	"errors"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// A method says what calls of it need.
type method struct {
	// public methods are for everybody who can connect.
	public bool
	// wants are the accesses of a message of the request. nil: whoever is known may call.
	wants func(m any) ([]Access, error)
	// each says that a message has several requests, which the handler judges one by one (CheckLookup).
	each bool
	// confine leaves out of an answer what the caller is not to see. nil: nothing.
	confine func(g *grants, answer any) any
}

// errMessage is a message of another type than its method's, which only a wrong row can bring about.
var errMessage = errors.New("auth: a method has the row of another one")

// of makes a method whose messages are Ms.
func of[M any](wants func(m M) []Access) method {
	return method{wants: func(m any) ([]Access, error) {
		req, ok := m.(M)
		if !ok {
			return nil, errMessage
		}
		return wants(req), nil
	}}
}

// confined is the method with something left out of its answers.
func (m method) confined(by func(g *grants, answer any) any) method {
	m.confine = by
	return m
}

// methods has a row for each method of each service. One that has none is refused.
var methods = map[string]method{
	iqv1.QueryService_Get_FullMethodName: of(func(m *iqv1.GetRequest) []Access {
		return []Access{get(Read, m)}
	}),
	iqv1.QueryService_Lookups_FullMethodName: {each: true},
	iqv1.QueryService_MultiGet_FullMethodName: of(func(m *iqv1.MultiGetRequest) []Access {
		keys := make([]Range, 0, len(m.GetKeys()))
		for _, k := range m.GetKeys() {
			keys = append(keys, Point(k))
		}
		return []Access{{Action: Read, Store: m.GetStore(), Keys: keys}}
	}),
	iqv1.QueryService_Scan_FullMethodName: of(func(m *iqv1.ScanRequest) []Access {
		return []Access{selected(Read, m.GetSelection())}
	}),
	iqv1.QueryService_Count_FullMethodName: of(func(m *iqv1.CountRequest) []Access {
		return []Access{selected(Read, m.GetSelection())}
	}),
	iqv1.QueryService_Watch_FullMethodName: of(func(m *iqv1.WatchRequest) []Access {
		return []Access{selected(Watch, m.GetSelection())}
	}),

	iqv1.MetadataService_ListInstances_FullMethodName: of(func(m *iqv1.ListInstancesRequest) []Access {
		return []Access{{Action: Metadata, Store: m.GetStore()}}
	}),
	// Whoever may do something with a store must know its formats.
	iqv1.MetadataService_ListStores_FullMethodName: {confine: confineStores},
	iqv1.MetadataService_QueryKey_FullMethodName: of(func(m *iqv1.QueryKeyRequest) []Access {
		return []Access{{Action: Metadata, Store: m.GetStore(), Keys: []Range{Point(m.GetKey())}}}
	}),
	iqv1.MetadataService_ListLags_FullMethodName: of(func(m *iqv1.ListLagsRequest) []Access {
		return []Access{{Action: Metadata, Store: m.GetStore()}}
	}),
	iqv1.MetadataService_Explain_FullMethodName: of(func(m *iqv1.ExplainRequest) []Access {
		return []Access{get(Metadata, m.GetGet())}
	}).confined(confineExplained),
	iqv1.MetadataService_WatchMetadata_FullMethodName: of(func(m *iqv1.WatchMetadataRequest) []Access {
		return []Access{{Action: Metadata, Store: m.GetStore()}}
	}),

	iqv1.ControlService_Heartbeat_FullMethodName: of(func(m *iqv1.HeartbeatRequest) []Access {
		return []Access{{Action: Report, Node: m.GetNode()}}
	}),
	iqv1.ControlService_Drain_FullMethodName: of(func(*iqv1.DrainRequest) []Access {
		return []Access{{Action: Control}}
	}),

	// Copies of whole stores are for nodes alone, each by its own name.
	"/iq.v1.SnapshotService/Offer": of(asNode),
	"/iq.v1.SnapshotService/Copy":  of(asNode),

	// A comparison costs a node much, and shows entries that differ.
	"/iq.v1.VerifyService/VerifyReplica": of(func(m interface{ GetStore() string }) []Access {
		return []Access{{Action: Control}, {Action: Read, Store: m.GetStore()}}
	}),
	"/iq.v1.VerifyService/PinState":    of(func(any) []Access { return []Access{{Action: Control}} }),
	"/iq.v1.VerifyService/DigestState": of(func(any) []Access { return []Access{{Action: Control}} }),

	// Health is asked by load balancers, which know no secret, and by nodes of one another before an eviction. It tells
	// whether a service that one names is served.
	healthpb.Health_Check_FullMethodName: {public: true},
	healthpb.Health_Watch_FullMethodName: {public: true},
	healthpb.Health_List_FullMethodName:  {},
	// Reflection tells what stands in the .proto files.
	reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName:      {},
	reflectionalphapb.ServerReflection_ServerReflectionInfo_FullMethodName: {},
}

// asNode is a request of a node that says which one it is. One that does not say is nobody's.
func asNode(m interface{ GetNode() string }) []Access {
	node := m.GetNode()
	if node == "" {
		node = "(none)" // no node id has brackets
	}
	return []Access{{Action: Peer, Node: node}}
}

func get(action Action, m *iqv1.GetRequest) Access {
	return Access{Action: action, Store: m.GetStore(), Keys: []Range{Point(m.GetKey())}}
}

// selected are the keys of a selection, as package query reads them.
func selected(action Action, m *iqv1.Selection) Access {
	a := Access{Action: action, Store: m.GetStore()}
	switch keys := m.GetKeys().(type) {
	case *iqv1.Selection_Key:
		a.Keys = []Range{Point(keys.Key)}
	case *iqv1.Selection_Prefix:
		a.Keys = []Range{Prefixed(keys.Prefix)}
	case *iqv1.Selection_Range:
		a.Keys = []Range{between(keys.Range)}
	}
	return a
}

// between is a range of the wire. A bound's absence is not the empty key.
func between(m *iqv1.KeyRange) Range {
	var r Range
	if m == nil {
		return r
	}
	if m.From != nil {
		if r.From = bytes.Clone(m.GetFrom()); m.GetFromExclusive() {
			r.From = after(r.From)
		}
	}
	if m.To != nil {
		if r.To = append([]byte{}, m.GetTo()...); !m.GetToExclusive() {
			r.To = after(r.To)
		}
	}
	return r
}
