package kafkabroker

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// startTimeout bounds one start; 5 s is usual, a machine under load takes several times that.
	startTimeout = 2 * time.Minute
	// stopTimeout is how long Stop waits for an orderly end before it kills.
	stopTimeout = 20 * time.Second
	// readyPoll is how often a start looks whether the broker answers, readyAsk how long it waits for one answer.
	readyPoll, readyAsk = 50 * time.Millisecond, 2 * time.Second
	// maxPortTries bounds the starts that another process spoilt by taking a port.
	maxPortTries = 3
	// defaultHeap is enough for tests and for the demo.
	defaultHeap = "512m"
)

// QuickStart returns the flags that halve the start of a small heap: serial collection and the first compiler alone. A broker
// so started takes more processor time for each record than one with Server.
func QuickStart() []string { return []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"} }

// Server returns the flags with which Kafka's own start script runs a broker (KAFKA_JVM_PERFORMANCE_OPTS in
// kafka-run-class.sh of Kafka 4).
func Server() []string {
	return []string{
		"-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
	}
}

//go:embed log4j2.xml
var log4j2 []byte

// heapSize is what Java takes for a heap bound.
var heapSize = regexp.MustCompile(`^[1-9][0-9]*[kKmMgG]$`)

// errPortTaken marks a start that failed because another process holds one of the ports.
var errPortTaken = errors.New("another process has taken the port")

// Options of a broker.
type Options struct {
	// Dir holds the broker's data, configuration and log (kafka.log). Required; created when it is not there. A
	// folder with the data of an earlier broker is gone on with. One process per folder.
	Dir string
	// Heap is Java's -Xmx: a number with k, m or g. Default 512m.
	Heap string
	// JVMFlags choose the broker's garbage collector and compiler. Default: QuickStart, which suits tests. Measurements
	// want Server.
	JVMFlags []string
	// Properties overrides the broker's configuration. Where it listens and keeps its data, its id and its roles
	// cannot be overridden.
	Properties map[string]string
	// Listeners are more ways in, by name, each with its security protocol: {"SECURE": "SASL_SSL"}. Their other properties
	// are set by Properties (listener.name.secure...); AddrOf tells where they are.
	Listeners map[string]string
	// Log also receives what the broker prints, which is warnings and worse. Default: the file alone. It is
	// written by one goroutine at a time.
	Log io.Writer
}

// Broker is a real Kafka broker of this process's own. Addr, PID and Done may be called at any time from any
// goroutine; Kill, Restart and Stop by one goroutine at a time.
type Broker struct {
	java      string
	jars      string
	opts      Options
	place     placement
	clusterID string

	mu struct {
		sync.Mutex
		proc *process // the current or the last run
	}
}

// Start starts a broker and returns when it answers. A ctx that ends stops the start, not a broker that runs. The
// caller ends the broker with Stop or Kill; on Linux it also ends with this process, however that dies.
func Start(ctx context.Context, opts Options) (*Broker, error) {
	if err := Find(ctx); err != nil {
		return nil, err
	}
	return start(ctx, opts, freePort)
}

// start is Start with the ports as pick says.
func start(ctx context.Context, opts Options, pick func() (int, error)) (*Broker, error) {
	b, err := prepare(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("start kafka: %w", err)
	}
	for try := 1; ; try++ {
		if b.place.port, b.place.controllerPort, err = pickPorts(pick); err != nil {
			return nil, fmt.Errorf("start kafka: %w", err)
		}
		if b.place.more, err = pickListeners(opts.Listeners, pick, b.place.port, b.place.controllerPort); err != nil {
			return nil, fmt.Errorf("start kafka: %w", err)
		}
		err := b.boot(ctx)
		if err == nil {
			return b, nil
		}
		if !errors.Is(err, errPortTaken) || try == maxPortTries {
			return nil, fmt.Errorf("start kafka: %w", err)
		}
	}
}

// prepare finds or makes all that a broker needs besides its ports.
func prepare(ctx context.Context, opts Options) (*Broker, error) {
	if opts.Dir == "" {
		return nil, errors.New("option Dir is empty: name a folder for the broker's data")
	}
	if opts.Heap == "" {
		opts.Heap = defaultHeap
	}
	if opts.JVMFlags == nil {
		opts.JVMFlags = QuickStart()
	}
	if !heapSize.MatchString(opts.Heap) {
		return nil, fmt.Errorf("option Heap %q: want a number with k, m or g, like %s", opts.Heap, defaultHeap)
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("option Dir %q: %w", opts.Dir, err)
	}
	opts.Dir = dir
	j, err := findJava(ctx)
	if err != nil {
		return nil, notInstalled(err)
	}
	jars, err := Jars(ctx)
	if err != nil {
		return nil, err
	}
	if strings.ContainsRune(jars, filepath.ListSeparator) {
		return nil, fmt.Errorf("cache folder %q: a Java class path cannot name a folder with a %q", jars, filepath.ListSeparator)
	}
	b := &Broker{java: j.java, jars: jars, opts: opts, place: placement{dataDir: filepath.Join(dir, "data")}}
	if err := os.MkdirAll(b.place.dataDir, 0o750); err != nil {
		return nil, err
	}
	if err := os.WriteFile(b.file("log4j2.xml"), log4j2, 0o600); err != nil {
		return nil, err
	}
	return b, nil
}

// boot writes the configuration, formats the storage if it is new, starts Java and waits until the broker answers.
func (b *Broker) boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready within %s", startTimeout))
	defer cancel()
	text, err := render(serverProperties, b.place, b.opts.Properties)
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.file("server.properties"), []byte(text), 0o600); err != nil {
		return err
	}
	if err := b.format(ctx); err != nil {
		return err
	}
	proc, err := b.spawnServer(ctx)
	if err != nil {
		return err
	}
	if err := b.awaitReady(ctx, proc); err != nil {
		proc.kill()
		if !isFree(b.place.port) || !isFree(b.place.controllerPort) {
			return fmt.Errorf("%w (%d or %d): %w", errPortTaken, b.place.port, b.place.controllerPort, err)
		}
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.proc = proc
	return nil
}

// format gives the storage a cluster id, or learns the one that it has.
func (b *Broker) format(ctx context.Context) error {
	switch meta, err := os.ReadFile(metaFile(b.place.dataDir)); {
	case err == nil:
		id, ok := clusterIDIn(string(meta))
		if !ok {
			return fmt.Errorf("%s names no cluster.id: it is no broker's data", metaFile(b.place.dataDir))
		}
		b.clusterID = id
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	b.clusterID = newClusterID()
	cmd := b.javaCommand(ctx, append([]string{"-Xmx128m"}, QuickStart()...), "kafka.tools.StorageTool", "format", "-t", b.clusterID, "-c", b.file("server.properties"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format %s: %w: %s", b.place.dataDir, errors.Join(err, context.Cause(ctx)), tail(out))
	}
	return nil
}

// spawnServer starts the broker's process. It lives on when ctx ends.
func (b *Broker) spawnServer(ctx context.Context) (*process, error) {
	logFile, err := openLog(b.file("kafka.log"))
	if err != nil {
		return nil, err
	}
	cmd := b.javaCommand(context.WithoutCancel(ctx), append([]string{"-Xmx" + b.opts.Heap}, b.opts.JVMFlags...), "kafka.Kafka", b.file("server.properties"))
	cmd.Stdout = logFile
	if b.opts.Log != nil {
		cmd.Stdout = io.MultiWriter(logFile, b.opts.Log)
	}
	cmd.Stderr = cmd.Stdout
	return spawn(cmd, logFile)
}

// javaCommand is Java with flags, the jars, a main class and its arguments.
func (b *Broker) javaCommand(ctx context.Context, flags []string, class string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, b.java, slices.Concat(flags, []string{
		"-Dlog4j2.configurationFile=" + b.file("log4j2.xml"), "-cp", filepath.Join(b.jars, "*"), class,
	}, args)...)
	cmd.Dir = b.opts.Dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8") // or Java cannot open a file whose name is not ASCII
	cmd.WaitDelay = time.Second
	return cmd
}

// awaitReady returns when the broker that answers on the port is the one of proc: it tells proc's cluster id and
// lists a broker, which means that the controller has let it in.
func (b *Broker) awaitReady(ctx context.Context, proc *process) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.DialTimeout(readyAsk), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer client.Close()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		id, brokers, err := askMetadata(ctx, client)
		if err == nil && id == b.clusterID && brokers > 0 {
			return nil
		}
		select {
		case <-proc.done:
			return fmt.Errorf("the broker ended before it was ready (%w): %s", proc.err, logTail(b.file("kafka.log")))
		case <-ctx.Done():
			return fmt.Errorf("wait for the broker: %w (last answer: cluster %q, %d brokers, error %w)", context.Cause(ctx), id, brokers, err)
		case <-tick.C:
		}
	}
}

// askMetadata asks who answers: the cluster's id and the number of live brokers.
func askMetadata(ctx context.Context, client *kgo.Client) (clusterID string, brokers int, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyAsk)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none; nil would mean all
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return "", 0, err
	}
	if resp.ClusterID != nil {
		clusterID = *resp.ClusterID
	}
	return clusterID, len(resp.Brokers), nil
}

// Addr is the broker's bootstrap address, host:port. It stays the same over Kill and Restart.
func (b *Broker) Addr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.place.port))
}

// PID is the process id of the current run, or of the last one after Kill or Stop.
func (b *Broker) PID() int { return b.current().cmd.Process.Pid }

// Done is closed when the current run has ended, for whatever reason. After Restart, ask again.
func (b *Broker) Done() <-chan struct{} { return b.current().done }

// Kill ends the broker with SIGKILL, as kill -9 would, and returns after its end.
func (b *Broker) Kill() { b.current().kill() }

// Stop ends the broker in an orderly way, which takes a second or two, or with SIGKILL when it has not ended
// within 20 s; it returns after the end. Stopping a broker that has ended does nothing.
func (b *Broker) Stop() error {
	if b.current().stop(stopTimeout) {
		return fmt.Errorf("stop kafka: it did not end within %s and was killed; see %s", stopTimeout, b.file("kafka.log"))
	}
	return nil
}

// Restart starts the broker again, on the same data and the same ports, and returns when it answers. One that
// still runs is stopped first.
func (b *Broker) Restart(ctx context.Context) error {
	if b.current().alive() {
		if err := b.Stop(); err != nil {
			return fmt.Errorf("restart kafka: %w", err)
		}
	}
	if err := b.boot(ctx); err != nil {
		return fmt.Errorf("restart kafka: %w", err)
	}
	return nil
}

// current is the current or the last run.
func (b *Broker) current() *process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.proc
}

// file is a path below Options.Dir.
func (b *Broker) file(name string) string { return filepath.Join(b.opts.Dir, name) }

// newClusterID returns a random cluster id in Kafka's form: 16 bytes in base64 for URLs, without padding. Its
// first bit is 0, or the id could begin with a '-' that StorageTool would take for an option.
func newClusterID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[0] &= 0x7f
	return base64.RawURLEncoding.EncodeToString(id[:])
}
