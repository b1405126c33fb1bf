package topology_test

import (
	"bytes"
	"testing"

	"github.com/iqgate/iqgate/topology"
)

// FuzzWindowedKeys gives any bytes as the key of a window or a session in a topic. What is taken apart makes the same bytes.
func FuzzWindowedKeys(f *testing.F) {
	f.Add([]byte("alice\x00\x00\x01\x8b\xcf\xe6\x04\x40"))
	f.Add([]byte("\x00\x00\x01\x8b\xcf\xe6\x04\x40\x80\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if key, start, err := topology.ParseWindowKey(data); err == nil {
			if again := topology.WindowKey(key, start); !bytes.Equal(again, data) {
				t.Fatalf("%x is window %d of %x, which is %x", data, start, key, again)
			}
		}
		if key, start, end, err := topology.ParseSessionKey(data); err == nil {
			if again := topology.SessionKey(key, start, end); !bytes.Equal(again, data) {
				t.Fatalf("%x is session %d to %d of %x, which is %x", data, start, end, key, again)
			}
		}
	})
}

// FuzzTaskID gives any text as a task's id. What is taken is written alike, but for signs and leading zeros.
func FuzzTaskID(f *testing.F) {
	for _, text := range []string{"0_3", "12_0", "_", "1_", "-1_2", "1_2_3", "9999999999_1", "+1_+2", "00_07"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := topology.ParseTaskID(text)
		if err != nil {
			return
		}
		if again, err := topology.ParseTaskID(id.String()); err != nil || again != id {
			t.Fatalf("%q is %s, which is %s, %v", text, id, again, err)
		}
	})
}

// FuzzCodecs gives any bytes as a value of each format. What is decoded encodes to what decodes to the same again.
func FuzzCodecs(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1})
	f.Add([]byte{0x7f, 0xf8, 0, 0, 0, 0, 0, 2})
	f.Add([]byte("fd7af248-ce5c-46a5-93d7-1c0c9005b99d"))
	f.Add([]byte("\xff\xfe"))
	f.Fuzz(func(t *testing.T, data []byte) {
		roundTrips(t, topology.String, data)
		roundTrips(t, topology.Int32, data)
		roundTrips(t, topology.Int64, data)
		roundTrips(t, topology.Double, data)
		roundTrips(t, topology.UUID, data)
	})
}

func roundTrips[T any](t *testing.T, c topology.Codec[T], data []byte) {
	t.Helper()
	v, err := c.Decode(data)
	if err != nil {
		return
	}
	once, err := c.Encode(v)
	if err != nil {
		t.Fatalf("%x is %v, which is not encoded: %v", data, v, err)
	}
	again, err := c.Decode(once)
	if err != nil {
		t.Fatalf("%x is %v, encoded as %x: %v", data, v, once, err)
	}
	if twice, err := c.Encode(again); err != nil || !bytes.Equal(twice, once) {
		t.Fatalf("%x is encoded as %x and then as %x, %v", data, once, twice, err)
	}
}
