package mux

import (
	"errors"
	"fmt"
	"math"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Field numbers of query.proto. A test compares what is written and read here with the generated code.
const (
	fieldItems protowire.Number = 1 // LookupsRequest.lookups and LookupsResponse.answers

	fieldID      protowire.Number = 1 // of Lookup and LookupAnswer
	fieldTimeout protowire.Number = 2 // of Lookup
	fieldRequest protowire.Number = 3
	fieldCancel  protowire.Number = 4

	fieldReply    protowire.Number = 2 // of LookupAnswer
	fieldError    protowire.Number = 3
	fieldTooLarge protowire.Number = 4
)

// asking is a Lookup.
type asking struct {
	id      uint32
	timeout time.Duration // 0: none
	request []byte
	cancel  bool
}

// answer is a LookupAnswer.
type answer struct {
	id       uint32
	reply    []byte
	status   *spb.Status // nil for a reply
	tooLarge bool
}

// size of a field that is a varint; the numbers of all fields take one byte.
func varintSize(v uint64) int { return 1 + protowire.SizeVarint(v) }

// size of a field that is bytes.
func bytesSize(n int) int { return 1 + protowire.SizeBytes(n) }

func appendVarint(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

// appendHead begins an item that is size bytes long.
func appendHead(b []byte, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, fieldItems, protowire.BytesType), uint64(size))
}

// appendAsking adds a lookup to a LookupsRequest. A time that is left counts in whole microseconds, and one at least.
func appendAsking(b []byte, id uint32, timeout time.Duration, request []byte) []byte {
	size := varintSize(uint64(id)) + bytesSize(len(request))
	var micros uint64
	if timeout > 0 {
		micros = uint64(max(1, timeout.Microseconds()))
		size += varintSize(micros)
	}
	b = appendVarint(appendHead(b, size), fieldID, uint64(id))
	if micros > 0 {
		b = appendVarint(b, fieldTimeout, micros)
	}
	return appendBytes(b, fieldRequest, request)
}

// appendCancel adds to a LookupsRequest that a lookup is given up.
func appendCancel(b []byte, id uint32) []byte {
	b = appendHead(b, varintSize(uint64(id))+varintSize(1))
	return appendVarint(appendVarint(b, fieldID, uint64(id)), fieldCancel, 1)
}

// appendReply adds an answer to a LookupsResponse; appendError and appendTooLarge are the other ways in which it may end.
func appendReply(b []byte, id uint32, reply []byte) []byte {
	return appendPart(b, id, fieldReply, reply)
}

func appendError(b []byte, id uint32, st *spb.Status) []byte {
	text, err := proto.Marshal(st)
	if err != nil { // text that is not UTF-8
		text, _ = proto.Marshal(&spb.Status{Code: st.GetCode(), Message: "the error's text could not be written"})
	}
	return appendPart(b, id, fieldError, text)
}

func appendPart(b []byte, id uint32, field protowire.Number, part []byte) []byte {
	b = appendHead(b, varintSize(uint64(id))+bytesSize(len(part)))
	return appendBytes(appendVarint(b, fieldID, uint64(id)), field, part)
}

func appendTooLarge(b []byte, id uint32) []byte {
	b = appendHead(b, varintSize(uint64(id))+varintSize(1))
	return appendVarint(appendVarint(b, fieldID, uint64(id)), fieldTooLarge, 1)
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
	switch kind { //nolint:exhaustive // no message here has other fields
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

// is says whether the field is one that is known; one of another type than the known counts as unknown and is passed over.
func (f *field) is(number protowire.Number, kind protowire.Type) bool {
	return f.number == number && f.kind == kind
}

var errTwice = errors.New("a field is there twice")

// walk gives each item of a message to visit.
func walk(message []byte, visit func(item []byte) error) error {
	for len(message) > 0 {
		f, rest, err := nextField(message)
		if err != nil {
			return err
		}
		message = rest
		if !f.is(fieldItems, protowire.BytesType) {
			continue
		}
		if err := visit(f.bytes); err != nil {
			return err
		}
	}
	return nil
}

// parseAsking reads a Lookup. Its request is part of the item.
func parseAsking(item []byte) (asking, error) {
	var a asking
	for len(item) > 0 {
		f, rest, err := nextField(item)
		if err != nil {
			return a, err
		}
		item = rest
		switch {
		case f.is(fieldID, protowire.VarintType):
			a.id = uint32(f.varint)
		case f.is(fieldTimeout, protowire.VarintType):
			a.timeout = timeoutOf(f.varint)
		case f.is(fieldCancel, protowire.VarintType):
			a.cancel = f.varint != 0
		case f.is(fieldRequest, protowire.BytesType):
			if a.request != nil {
				return a, fmt.Errorf("get: %w", errTwice)
			}
			a.request = f.bytes
		}
	}
	return a, nil
}

// timeoutOf is a time in microseconds; one that is too long for a Duration is the longest that there is.
func timeoutOf(micros uint64) time.Duration {
	if micros > uint64(math.MaxInt64/time.Microsecond) {
		return math.MaxInt64
	}
	return time.Duration(micros) * time.Microsecond
}

// parseAnswer reads a LookupAnswer. Its reply is part of the item.
func parseAnswer(item []byte) (answer, error) {
	var a answer
	for len(item) > 0 {
		f, rest, err := nextField(item)
		if err != nil {
			return a, err
		}
		item = rest
		switch {
		case f.is(fieldID, protowire.VarintType):
			a.id = uint32(f.varint)
		case f.is(fieldTooLarge, protowire.VarintType):
			a.tooLarge = f.varint != 0
		case f.is(fieldReply, protowire.BytesType):
			if a.reply != nil {
				return a, fmt.Errorf("get: %w", errTwice)
			}
			a.reply = f.bytes
		case f.is(fieldError, protowire.BytesType):
			if a.status != nil {
				return a, fmt.Errorf("error: %w", errTwice)
			}
			a.status = &spb.Status{}
			if err := proto.Unmarshal(f.bytes, a.status); err != nil {
				return a, fmt.Errorf("error: %w", err)
			}
		}
	}
	return a, nil
}
