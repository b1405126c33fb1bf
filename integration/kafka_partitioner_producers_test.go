//go:build kafka

package integration

import (
	"bytes"
	"context"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/integration/kafkabroker"
)

// rdkafkaPartitioners are the values of librdkafka's setting `partitioner` that hash. Our names are the same.
var rdkafkaPartitioners = []string{"consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"}

// Where kcat shall cut its input: texts that no key of a test holds.
const kcatKeyEnd, kcatRecordEnd = "<:end of the key:>", "<:end of the record:>"

// needKcat is the path of kcat, which is librdkafka's producer. It skips the test where there is none, or fails it when
// KAFKA_REQUIRED=1.
func needKcat(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("kcat")
	if err != nil {
		missing(t, "no librdkafka here: install the Debian package kcat")
	}
	return path
}

// missing skips the test for what this machine lacks, or fails it when KAFKA_REQUIRED=1.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("KAFKA_REQUIRED") == "1" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// writeByKcat writes the keys, in order, each with the same value, by librdkafka with the given partitioner; none means
// its default. Keys that librdkafka spreads go to a new random partition each, not to one that it keeps for a while.
func (a *app) writeByKcat(topic, partitioner, value string, keys [][]byte) {
	a.t.Helper()
	args := []string{
		"-P", "-b", shared.broker.Addr(), "-t", a.topic(topic), "-K", kcatKeyEnd, "-D", kcatRecordEnd,
		"-X", "sticky.partitioning.linger.ms=0",
	}
	if partitioner != "" {
		args = append(args, "-X", "topic.partitioner="+partitioner)
	}
	var in bytes.Buffer
	for _, key := range keys {
		in.Write(key)
		in.WriteString(kcatKeyEnd + value + kcatRecordEnd)
	}
	cmd := exec.CommandContext(a.ctx, needKcat(a.t), args...)
	cmd.Stdin = &in
	if out, err := cmd.CombinedOutput(); err != nil {
		a.t.Fatalf("kcat with partitioner %q: %v: %s", partitioner, err, out)
	}
}

// writeByGo writes the keys by franz-go as it is without any settings.
func (a *app) writeByGo(topic, value string, keys [][]byte) {
	a.t.Helper()
	cl := a.client()
	var recs []*kgo.Record
	for _, key := range keys {
		recs = append(recs, &kgo.Record{Topic: a.topic(topic), Key: key, Value: []byte(value)})
	}
	if err := cl.ProduceSync(a.ctx, recs...).FirstErr(); err != nil {
		a.t.Fatal(err)
	}
}

// javaHash is what Java's client computes for a key.
type javaHash struct {
	murmur2    int32           // Utils.murmur2
	partitions map[int32]int32 // BuiltInPartitioner.partitionForKey by number of partitions
}

// writeKeysByJava writes the keys with the value "java" by Java's producer as it is without any settings, and has its
// library hash them for the given numbers of partitions.
func (a *app) writeKeysByJava(topic string, keys [][]byte, counts ...int32) []javaHash {
	a.t.Helper()
	jars, err := kafkabroker.Jars(a.ctx)
	if err != nil {
		a.t.Fatal(err)
	}
	needJavac(a.ctx, a.t)
	var in bytes.Buffer
	for _, key := range keys {
		in.WriteString(hex.EncodeToString(key) + "\n")
	}
	args := []string{
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx192m", "-cp", filepath.Join(jars, "*"),
		filepath.Join("testdata", "ProduceKeys.java"), shared.broker.Addr(), a.topic(topic),
	}
	for _, n := range counts {
		args = append(args, strconv.Itoa(int(n)))
	}
	cmd := exec.CommandContext(a.ctx, java(a.t), args...)
	var log bytes.Buffer
	cmd.Stdin, cmd.Stderr = &in, &log
	out, err := cmd.Output()
	if err != nil {
		a.t.Fatalf("Java's producer: %v: %s", err, log.String())
	}
	lines := slices.Collect(strings.Lines(string(out)))
	if len(lines) != len(keys) {
		a.t.Fatalf("Java's producer hashed %d keys, want %d: %s", len(lines), len(keys), log.String())
	}
	hashes := make([]javaHash, len(keys))
	for i, line := range lines {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(cells) != 2+len(counts) || cells[0] != hex.EncodeToString(keys[i]) {
			a.t.Fatalf("Java's producer says %.80q of key %.40x", line, keys[i])
		}
		hashes[i] = javaHash{murmur2: int32Of(a.t, cells[1]), partitions: make(map[int32]int32)}
		for c, n := range counts {
			hashes[i].partitions[n] = int32Of(a.t, cells[2+c])
		}
	}
	return hashes
}

// needJavac makes sure that the Java that runs the broker can also compile, so that it runs a source file.
func needJavac(ctx context.Context, t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(ctx, java(t), "--list-modules").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "jdk.compiler@") {
		missing(t, java(t)+" is no JDK: install the Debian package default-jdk-headless")
	}
}

func int32Of(t *testing.T, text string) int32 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(n)
}
