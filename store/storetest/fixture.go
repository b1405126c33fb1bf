package storetest

import (
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Record is a changelog record.
type Record struct {
	Offset    int64
	Control   bool // a marker
	Key       []byte
	Value     []byte // nil is a tombstone
	Timestamp int64  // milliseconds
}

// Fixture reads the records of a topic partition from a file of records that a Kafka Streams application wrote: columns
// topic, partition, offset, kind, timestamp, key and value in hex (EMPTY, NULL), headers.
func Fixture(tb testing.TB, path, topic string, partition int) []Record {
	tb.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	var records []Record
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		f := strings.Split(line, "\t")
		if i == 0 || f[0] != topic || f[1] != strconv.Itoa(partition) {
			continue
		}
		r := Record{Control: f[3] == "control", Key: unhex(tb, f[5]), Value: unhex(tb, f[6])}
		if r.Offset, err = strconv.ParseInt(f[2], 10, 64); err == nil {
			r.Timestamp, err = strconv.ParseInt(f[4], 10, 64)
		}
		if err != nil {
			tb.Fatalf("%s line %d: %v", path, i+1, err)
		}
		records = append(records, r)
	}
	if len(records) == 0 {
		tb.Fatalf("%s has no records of %s/%d", path, topic, partition)
	}
	return records
}

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	switch s {
	case "NULL":
		return nil
	case "EMPTY":
		return []byte{}
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
