//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/integration/process"
)

// patience bounds every wait of these tests; what they wait for takes well under a second on an idle machine.
const patience = 30 * time.Second

// binary is the program, built once, as users have it: without any tag.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "iqnode-test-")
	if err != nil {
		panic(err)
	}
	if binary, err = process.Build(context.Background(), dir, "iqnode"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// a bench is a directory with a topology, and a Kafka that may or may not be there.
type bench struct {
	*testing.T
	dir     string
	brokers string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, dir: t.TempDir()}
	b.write("topology.yaml", "application: counts\nsources: [{topic: words, format: raw}]\naggregates: [{store: counts, source: words, count: true}]\n")
	var err error
	if b.brokers, err = process.Address(); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) write(name, text string) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}

// kafka starts a Kafka at the bench's address.
func (b *bench) kafka(opts ...kfake.Opt) {
	b.Helper()
	_, port, _ := net.SplitHostPort(b.brokers)
	n, err := strconv.Atoi(port)
	if err != nil {
		b.Fatal(err)
	}
	k, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(1), kfake.Ports(n), kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}),
	}, opts...)...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(k.Close)
}

// client is a Kafka client of the test.
func (b *bench) client() *kgo.Client {
	b.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.brokers))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cl.Close)
	return cl
}

// node starts a node; a flag given in more replaces the bench's.
func (b *bench) node(id string, env []string, more ...string) *running {
	b.Helper()
	log := filepath.Join(b.dir, id+"-"+strconv.Itoa(int(time.Now().UnixNano()))+".log")
	args := append([]string{
		"--node-id", id, "--topology", filepath.Join(b.dir, "topology.yaml"), "--brokers", b.brokers, "--state-dir", filepath.Join(b.dir, id),
	}, more...)
	p, err := process.Start(process.Spec{Path: binary, Args: args, Env: env, Log: log})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Kill)
	return &running{Process: p, bench: b, log: log}
}

type running struct {
	*process.Process
	bench *bench
	log   string
	admin string // the address of its admin port, where a test asks it
}

func (r *running) output() string {
	r.bench.Helper()
	text, err := os.ReadFile(r.log)
	if err != nil {
		r.bench.Fatal(err)
	}
	return string(text)
}

// says waits until the program has printed a line with all the texts.
func (r *running) says(texts ...string) {
	r.bench.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		ended := !r.Alive()
		for line := range strings.Lines(r.output()) {
			if hasAll(line, texts) {
				return
			}
		}
		if ended || time.Now().After(deadline) {
			r.bench.Fatalf("the program does not say %q (ended: %t); it says\n%s", texts, ended, r.output())
		}
	}
}

func hasAll(line string, texts []string) bool {
	for _, text := range texts {
		if !strings.Contains(line, text) {
			return false
		}
	}
	return true
}

// exits waits for the program's end and compares its exit code.
func (r *running) exits(code int) {
	r.bench.Helper()
	select {
	case <-r.Done():
	case <-time.After(patience):
		r.bench.Fatalf("the program does not end; it says\n%s", r.output())
	}
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](r.Err()); ok {
		got = exit.ExitCode()
	}
	if got != code {
		r.bench.Fatalf("exit code %d (%v), want %d; it says\n%s", got, r.Err(), code, r.output())
	}
}

func TestBadConfigurationEndsWithCodeTwoAndNamesEveryFault(t *testing.T) {
	b := newBench(t)
	b.write("node.yaml", "lease: [1s\n")
	b.write("bad.yaml", "application: counts\nsources:\n- topic: words\n  format: text\n")
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"nothing", nil, []string{"node-id", "topology", "brokers", "state-dir"}},
		{"malformed file", []string{"--config", filepath.Join(b.dir, "node.yaml")}, []string{"node.yaml", "no YAML", "line 1"}},
		{"malformed topology", []string{"--topology", filepath.Join(b.dir, "bad.yaml")}, []string{"--topology", "line 4: sources[0].format", "line 1: at least one table or aggregate"}},
		{"negative values", []string{"--lease", "-2s", "--standbys", "-1", "--max-waiting", "-3"}, []string{`--lease "-2s"`, `--standbys "-1"`, `--max-waiting "-3"`}},
		{"unknown flag", []string{"--broker", "x:1"}, []string{"-broker"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := exec.Command(binary, c.args...).CombinedOutput()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 {
				t.Errorf("%v, want exit code 2", err)
			}
			if !hasAll(string(out), c.want) || !strings.Contains(string(out), "iqnode --help") || strings.Contains(string(out), "panic") {
				t.Errorf("it says\n%s\nwant all of %q", out, c.want)
			}
		})
	}
}

func TestS20AnAddressThatNobodyCanDialEndsWithCodeTwo(t *testing.T) {
	b := newBench(t)
	for _, address := range []string{"0.0.0.0:7070", ":7070", "127.0.01:7070", ""} {
		r := b.node("a", nil, "--advertised="+address)
		r.exits(2)
		r.says("advertised", fmt.Sprintf("%q", address))
	}
}

func TestTopicThatDoesNotExistIsWaitedForByName(t *testing.T) {
	b := newBench(t)
	b.kafka()
	r := b.node("a", nil)
	r.says("iqnode a listening at 127.0.0.1:")
	r.says("waiting for topics that do not exist", "topics=words", "application=counts")
	if _, err := kadm.NewClient(b.client()).CreateTopic(t.Context(), 2, 1, nil, "words"); err != nil {
		t.Fatal(err)
	}
	r.says("assignment", "active=2")
	if err := r.Stop(); err != nil {
		t.Errorf("after SIGTERM: %v; it says\n%s", err, r.output())
	}
	r.says("stopped")
}

func TestKafkaThatComesUpLaterIsWaitedForByAddress(t *testing.T) {
	b := newBench(t)
	r := b.node("a", nil)
	r.says("waiting for Kafka", "brokers="+b.brokers)
	b.kafka(kfake.SeedTopics(2, "words"))
	r.says("assignment", "active=2")
	if err := r.Stop(); err != nil {
		t.Errorf("after SIGTERM: %v; it says\n%s", err, r.output())
	}
}

func TestSignalWhileWaitingForKafkaStopsInOrder(t *testing.T) {
	b := newBench(t)
	r := b.node("a", nil)
	r.says("waiting for Kafka")
	if err := r.Stop(); err != nil {
		t.Errorf("after SIGTERM: %v; it says\n%s", err, r.output())
	}
	r.says("stopping")
}

func TestStateDirectoryInUseIsRefused(t *testing.T) {
	b := newBench(t)
	first := b.node("a", nil)
	first.says("waiting for Kafka")
	second := b.node("b", nil, "--state-dir", filepath.Join(b.dir, "a"))
	second.exits(1)
	second.says("StateDir", filepath.Join(b.dir, "a"), "in use by another process")
	if !first.Alive() {
		t.Errorf("the first node ended too; it says\n%s", first.output())
	}
}

func TestPortInUseIsRefused(t *testing.T) {
	b := newBench(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // of a test
	r := b.node("a", nil, "--listen", l.Addr().String())
	r.exits(1)
	r.says("Listen", l.Addr().String(), "in use")
}

func TestReplacedNodeEndsWithCodeThree(t *testing.T) {
	b := newBench(t)
	b.kafka(kfake.SeedTopics(1, "words"))
	first := b.node("a", nil)
	first.says("assignment", "active=1")
	second := b.node("a", nil, "--state-dir", filepath.Join(b.dir, "other"))
	second.says("assignment", "active=1")
	first.exits(3)
	first.says("another process runs with the same node id")
}

func TestPlannedCrashIsASIGKILLAtItsStep(t *testing.T) {
	b := newBench(t)
	b.kafka(kfake.SeedTopics(1, "words"))
	r := b.node("a", []string{"IQNODE_CRASH_AT=flush:1"})
	r.says("assignment", "active=1")
	if !r.Alive() {
		t.Fatalf("crashed before any record was there; it says\n%s", r.output())
	}
	if err := b.client().ProduceSync(t.Context(), &kgo.Record{Topic: "words", Key: []byte("k"), Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got := r.Signal(); got != syscall.SIGKILL {
		t.Errorf("ended by signal %v, want SIGKILL; it says\n%s", got, r.output())
	}
}
