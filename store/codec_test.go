package store

import (
	"bytes"
	"maps"
	"testing"
)

func FuzzStoredValueRoundTrips(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), int64(5), 0)
	f.Add([]byte(nil), []byte(nil), int64(-1), 0)
	f.Add([]byte("key"), []byte{}, int64(1<<62), maxPlainKey)
	f.Fuzz(func(t *testing.T, key, value []byte, timestamp int64, pad int) {
		if pad > 0 && pad <= 2*maxPlainKey {
			key = append(bytes.Repeat([]byte("p"), pad), key...)
		}
		if n := len(encodeKey(nil, key)); n != encodedKeyLen(key) {
			t.Errorf("encodeKey made %d bytes, encodedKeyLen says %d", n, encodedKeyLen(key))
		}
		b := encodeValue(nil, key, value, timestamp)
		if len(b) > encodedValueLen(key, value) {
			t.Errorf("encodeValue made %d bytes, encodedValueLen says %d", len(b), encodedValueLen(key, value))
		}
		v, long, err := decodeValue(b)
		if err != nil || !bytes.Equal(v.Bytes, value) || v.Bytes == nil || v.Timestamp != timestamp {
			t.Fatalf("decoded %q at %d, err=%v, want %q at %d", v.Bytes, v.Timestamp, err, value, timestamp)
		}
		if isLong := len(key) > maxPlainKey; isLong != (long != nil) || isLong && !bytes.Equal(long, key) {
			t.Errorf("a key of %d bytes came back as one of %d", len(key), len(long))
		}
		for n := range min(len(b), valueHeaderBytes) {
			if _, _, err := decodeValue(b[:n]); err == nil {
				t.Errorf("%d of %d bytes decoded", n, len(b))
			}
		}
	})
}

func FuzzDecodeValueNeverPanics(f *testing.F) {
	f.Add(encodeValue(nil, bytes.Repeat([]byte("k"), maxPlainKey+1), []byte("v"), 1))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, flagLongKey, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(_ *testing.T, b []byte) { _, _, _ = decodeValue(b) })
}

func FuzzPositionEntryRoundTrips(f *testing.F) {
	full := meta{
		at: Checkpoint{Position: 9, Input: map[TopicPartition]int64{{"a", 0}: 1, {"a", 1}: 1 << 60, {"", -1}: -1}},
		ts: 10, witness: 3,
	}
	f.Add(encodeMeta(full))
	f.Add(encodeMeta(meta{at: Checkpoint{Position: -1}}))
	f.Add([]byte{metaFormat, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		again, err := decodeMeta(encodeMeta(m))
		if err != nil || again.at.Position != m.at.Position || again.ts != m.ts || again.witness != m.witness || !maps.Equal(again.at.Input, m.at.Input) {
			t.Errorf("%+v came back as %+v, err=%v", m, again, err)
		}
	})
}

func TestPositionEntryCutAnywhereIsRefused(t *testing.T) {
	b := encodeMeta(meta{at: Checkpoint{Position: 9, Input: map[TopicPartition]int64{{"in", 1}: 4}}, ts: 10})
	if m, err := decodeMeta(b); err != nil || m.at.Input[TopicPartition{"in", 1}] != 4 {
		t.Fatalf("%+v %v", m, err)
	}
	for n := range b {
		if m, err := decodeMeta(b[:n]); err == nil {
			t.Errorf("%d of %d bytes decoded as %+v", n, len(b), m)
		}
	}
	if _, err := decodeMeta(append(b, 0)); err == nil {
		t.Error("a byte too many was taken")
	}
}
