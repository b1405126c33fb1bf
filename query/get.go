package query

import (
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Get is a GetRequest as it is read from the wire. Reads of one key are most of what nodes and routers do, and decoding
// messages by reflection would be a good part of it. A test compares it with the generated code.
type Get struct {
	Store, Application string
	// Key shares the request's bytes.
	Key []byte
	// Policy is nil where the request has none. It may be shared with other requests and must not be written to.
	Policy *iqv1.ReadPolicy
	// Partition counts only if HasPartition.
	Partition    int32
	HasPartition bool
	Explain      bool
	// WindowStartMs, SessionEndMs and AsOfMs are nil where the request has none.
	WindowStartMs, SessionEndMs, AsOfMs *int64

	raw []byte
}

// Field numbers of GetRequest in query.proto.
const (
	getStore         protowire.Number = 1
	getKey           protowire.Number = 2
	getPolicy        protowire.Number = 3
	getPartition     protowire.Number = 4
	getApplication   protowire.Number = 5
	getExplain       protowire.Number = 6
	getWindowStartMs protowire.Number = 7
	getSessionEndMs  protowire.Number = 8
	getAsOfMs        protowire.Number = 9
)

// GetOf is a request that was decoded. It cannot be forwarded.
func GetOf(m *iqv1.GetRequest) Get {
	return Get{
		Store: m.GetStore(), Application: m.GetApplication(), Key: m.GetKey(), Policy: m.GetPolicy(),
		Partition: m.GetPartition(), HasPartition: m.Partition != nil, Explain: m.GetExplain(),
		WindowStartMs: m.WindowStartMs, SessionEndMs: m.SessionEndMs, AsOfMs: m.AsOfMs,
	}
}

// ParseGet reads a request. The error is an *iqerr.InvalidError.
func ParseGet(request []byte) (Get, error) {
	g := Get{raw: request}
	var policy []byte
	for at := request; len(at) > 0; {
		f, rest, err := nextField(at)
		if err != nil {
			return g, malformedGet(err)
		}
		at = rest
		switch {
		case f.kind == protowire.VarintType:
			g.setNumber(f)
		case f.kind != protowire.BytesType:
		case f.number == getStore:
			g.Store = string(f.bytes)
		case f.number == getKey:
			g.Key = f.bytes
		case f.number == getApplication:
			g.Application = string(f.bytes)
		case f.number == getPolicy && policy == nil:
			policy = f.bytes
		case f.number == getPolicy: // a message that is there twice is both together
			policy = append(slices.Clip(policy), f.bytes...)
		}
	}
	if !utf8.ValidString(g.Store) || !utf8.ValidString(g.Application) {
		return g, iqerr.Invalid("request", "", "store and application must be UTF-8")
	}
	var err error
	if g.Policy, err = parsePolicy(policy); err != nil {
		return g, malformedGet(err)
	}
	return g, nil
}

// setNumber takes a field that is a number.
func (g *Get) setNumber(f field) {
	switch f.number { //nolint:exhaustive // the library's numbers are no fields
	case getPartition:
		g.Partition, g.HasPartition = int32(f.varint), true
	case getExplain:
		g.Explain = f.varint != 0
	case getWindowStartMs:
		g.WindowStartMs = new(int64(f.varint))
	case getSessionEndMs:
		g.SessionEndMs = new(int64(f.varint))
	case getAsOfMs:
		g.AsOfMs = new(int64(f.varint))
	}
}

// justModes are the policies that say no more than a mode, by mode; most do.
var justModes = func() []*iqv1.ReadPolicy {
	all := make([]*iqv1.ReadPolicy, len(iqv1.ReadPolicy_Mode_name))
	for i := range all {
		all[i] = &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_Mode(i)}
	}
	return all
}()

// parsePolicy reads a ReadPolicy; nil is none.
func parsePolicy(b []byte) (*iqv1.ReadPolicy, error) {
	const modeTag = 1<<3 | byte(protowire.VarintType)
	switch {
	case b == nil:
		return nil, nil //nolint:nilnil // there is none
	case len(b) == 0:
		return justModes[0], nil
	case len(b) == 2 && b[0] == modeTag && int(b[1]) < len(justModes):
		return justModes[b[1]], nil
	}
	m := &iqv1.ReadPolicy{}
	return m, proto.Unmarshal(b, m)
}

func malformedGet(err error) error {
	return iqerr.Invalid("request", "", "is no GetRequest: "+err.Error())
}

// partitionRoom is what the field partition takes at most.
const partitionRoom = 1 + 10

// Forward is the request as a node is to be asked, but for the partition (see ForPartition): with another policy and without
// explain. All else goes on as it came, fields of later versions too.
func (g *Get) Forward(policy *iqv1.ReadPolicy) ([]byte, error) {
	size := proto.Size(policy)
	b := make([]byte, 0, len(g.raw)+1+protowire.SizeBytes(size)+partitionRoom)
	for at := g.raw; len(at) > 0; {
		f, rest, err := nextField(at)
		if err != nil {
			return nil, malformedGet(err)
		}
		replaced := f.number == getPolicy && f.kind == protowire.BytesType ||
			(f.number == getPartition || f.number == getExplain) && f.kind == protowire.VarintType
		if !replaced {
			b = append(b, at[:len(at)-len(rest)]...)
		}
		at = rest
	}
	b = protowire.AppendTag(b, getPolicy, protowire.BytesType)
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(protowire.AppendVarint(b, uint64(size)), policy)
}

// ForPartition is a forwarded request for one partition. It has bytes of its own.
func ForPartition(forward []byte, partition int32) []byte {
	b := append(make([]byte, 0, len(forward)+partitionRoom), forward...)
	return protowire.AppendVarint(protowire.AppendTag(b, getPartition, protowire.VarintType), uint64(int64(partition)))
}

// field is one field of a message. Its bytes are those of the message.
type field struct {
	number protowire.Number
	kind   protowire.Type
	varint uint64
	bytes  []byte
}

// nextField cuts the first field off a message.
func nextField(b []byte) (f field, rest []byte, err error) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return f, nil, protowire.ParseError(n)
	}
	f.number, f.kind = number, kind
	b = b[n:]
	switch kind { //nolint:exhaustive // the others are of later versions
	case protowire.VarintType:
		f.varint, n = protowire.ConsumeVarint(b)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(number, kind, b)
	}
	if n < 0 {
		return f, nil, protowire.ParseError(n)
	}
	return f, b[n:], nil
}
