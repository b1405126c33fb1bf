//go:build kafka

package kafkabroker

import (
	"context"
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
)

// testTimeout bounds each test, with room for a machine under load.
const testTimeout = 3 * time.Minute

// requireKafka skips the test where no Kafka can run, or fails it when KAFKA_REQUIRED=1.
func requireKafka(t *testing.T) context.Context {
	t.Helper()
	if err := Find(t.Context()); err != nil {
		if os.Getenv("KAFKA_REQUIRED") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// readOne reads the first record of topic t, partition 0.
func readOne(ctx context.Context, t *testing.T, addr string) string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(0)}}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fetches := client.PollRecords(ctx, 1)
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	return string(fetches.Records()[0].Value)
}

func TestRecordSurvivesKillAndRestart(t *testing.T) {
	ctx := requireKafka(t)
	var log strings.Builder
	b, err := Start(ctx, Options{
		Dir:        filepath.Join(t.TempDir(), "größe 1"), // neither blanks nor letters of any kind may matter
		Properties: map[string]string{"message.max.bytes": "2000000"},
		Log:        &log,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Kill()
	addr, pid := b.Addr(), b.PID()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(ctx, kgo.StringRecord("hello")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got := readOne(ctx, t, addr); got != "hello" {
		t.Fatalf("before the kill: read %q, want hello", got)
	}
	configs, err := admin.DescribeBrokerConfigs(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range configs[0].Configs {
		if c.Key == "message.max.bytes" && c.MaybeValue() != "2000000" {
			t.Errorf("message.max.bytes = %s, want what Options.Properties says", c.MaybeValue())
		}
	}

	b.Kill()
	if syscall.Kill(pid, 0) == nil {
		t.Fatalf("process %d is alive after Kill", pid)
	}
	began := time.Now()
	if err := b.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("restarted in %s", time.Since(began))
	if b.Addr() != addr || b.PID() == pid {
		t.Errorf("after the restart: address %s, process %d; want address %s and a process other than %d", b.Addr(), b.PID(), addr, pid)
	}
	if got := readOne(ctx, t, addr); got != "hello" {
		t.Fatalf("after the restart: read %q, want hello", got)
	}

	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if file, err := os.ReadFile(b.file("kafka.log")); err != nil || string(file) != log.String() {
		t.Errorf("kafka.log is %q, %v; Options.Log got %q, want the same", file, err, log.String())
	}
	if !isFree(b.place.port) {
		t.Errorf("port %d is taken after Stop", b.place.port)
	}
	if err := b.Stop(); err != nil {
		t.Errorf("the second Stop: %v, want nothing", err)
	}
}

// A port that answers may be another broker's. Start has to notice that its own broker did not get it, although a
// Kafka answers there, and take another.
func TestStartLeavesAPortToTheBrokerThatHasIt(t *testing.T) {
	ctx := requireKafka(t)
	foreign, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(foreign.Close)
	_, text, err := net.SplitHostPort(foreign.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	taken, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	picks := 0
	b, err := start(ctx, Options{Dir: t.TempDir()}, func() (int, error) {
		if picks++; picks == 1 {
			return taken, nil
		}
		return freePort()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Kill()
	if b.place.port == taken {
		t.Errorf("the broker says that it owns port %d, which another broker has", taken)
	}
	if picks != 4 {
		t.Errorf("ports picked %d times, want 4: two for each of two starts", picks)
	}
}

func TestWhatKafkaRefusesIsInTheError(t *testing.T) {
	ctx := requireKafka(t)
	for property, value := range map[string]string{
		"num.io.threads":        "many",                    // refused when the storage is formatted
		"authorizer.class.name": "org.example.NoSuchClass", // refused when the broker starts
	} {
		b, err := Start(ctx, Options{Dir: t.TempDir(), Properties: map[string]string{property: value}})
		if err == nil {
			b.Kill()
			t.Fatalf("%s=%s was accepted", property, value)
		}
		if !strings.Contains(err.Error(), value) {
			t.Errorf("%s=%s: the error does not name the value: %v", property, value, err)
		}
	}
}

func TestBrokerDiesWithItsParent(t *testing.T) {
	if os.Getenv("KAFKABROKER_PARENT") != "" { // the parent that is going to be killed
		b, err := Start(t.Context(), Options{Dir: os.Getenv("KAFKABROKER_PARENT")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stdout.WriteString("pid=" + strconv.Itoa(b.PID()) + "\n"); err != nil {
			t.Fatal(err)
		}
		<-b.Done()
		return
	}
	ctx := requireKafka(t)
	parent := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestBrokerDiesWithItsParent$")
	parent.Env = append(os.Environ(), "KAFKABROKER_PARENT="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 200)
	n, err := out.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(string(buf[:n])), "pid="))
	if err != nil || syscall.Kill(pid, 0) != nil {
		t.Fatalf("the parent printed %q; want pid= and a live process (%v)", buf[:n], err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // says "killed"
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for syscall.Kill(pid, 0) == nil {
		if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil && strings.Contains(string(stat), ") Z ") {
			return // dead, and its new parent has not looked yet
		}
		select {
		case <-ctx.Done():
			t.Fatalf("process %d outlived its parent", pid)
		case <-tick.C:
		}
	}
}
