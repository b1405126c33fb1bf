//go:build kafka

package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/iqgate/iqgate/client"
)

// mountSmall mounts a file system of 256 MB, which needs root.
func mountSmall(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a tmpfs")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
}

// A node whose disk is full to the last block does not die of it: it keeps what it has and says how far behind that is, and is
// right again when there is room.
func TestS34KafkaFullDisk(t *testing.T) {
	a := newApp(t, tableYAML, map[string]int32{"in": 1})
	mountSmall(t, filepath.Join(a.dir, "b"))
	active, standby := a.pair()
	keys := a.fillTable(1000, 1000)
	standby.becomes(client.MaxOffsetLag(0), "key-999", "999"+strings.Repeat("v", 1000))

	ballast := filepath.Join(a.dir, "b", "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 20; size >= 512; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		a.write(a.kafka, "in", "key-0", fmt.Sprintf("full-%d", round))
		a.fillTable(1000, 1000)
	}
	active.becomes(client.Strong(), "key-999", "999"+strings.Repeat("v", 1000))
	standby.logs(20*time.Second, "the disk is full")
	a.eventually(20*time.Second, "it says how far behind it is", func() error {
		st, err := standby.status()
		if err == nil && (st.OffsetLag == nil || st.GetOffsetLag() < 1000) {
			err = errors.New(st.String())
		}
		return err
	})
	if _, _, err := a.read(standby.Client, "key-0", client.MaxOffsetLag(0)); err == nil {
		t.Error("it answers as if it were not behind")
	}
	if got, _, err := a.read(standby.Client, "key-999", client.Any()); err != nil || got != "999"+strings.Repeat("v", 1000) {
		t.Errorf("what it has is not answered: %.20q, %v", got, err)
	}
	if !standby.Alive() {
		t.Fatalf("it has ended: %v", standby.Err())
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	standby.becomes(client.MaxOffsetLag(0), "key-0", "0"+strings.Repeat("v", 1000))
	if got := a.verified(active, standby); got != int64(keys) {
		t.Errorf("%d entries, want %d", got, keys)
	}
}

// A node with a hundred empty stores stays small.
func TestS34KafkaManyEmptyStoresAreSmall(t *testing.T) {
	const twoStores = `
application: APP
sources:
  - {topic: APP-in, format: raw, value_serde: string}
tables:
  - {store: table, source: APP-in}
aggregates:
  - {store: counts, source: APP-in, count: true}
`
	a := newApp(t, twoStores, map[string]int32{"in": 50})
	n := a.start("a")
	a.eventually(90*time.Second, "a hundred stores are open", func() error {
		replicas, err := n.Lags(a.ctx, "")
		open := 0
		for _, r := range replicas {
			if r.GetPosition() >= 0 {
				open++
			}
		}
		if err == nil && open < 100 {
			err = fmt.Errorf("%d of %d", open, len(replicas))
		}
		return err
	})
	status, err := os.ReadFile("/proc/" + strconv.Itoa(n.PID()) + "/status")
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n.PID(), syscall.SIGQUIT); err != nil { // prints all goroutines
		t.Fatal(err)
	}
	<-n.Done()
	log, err := n.Log()
	if err != nil {
		t.Fatal(err)
	}
	goroutines := strings.Count(log, "\ngoroutine ")
	t.Logf("%d MB, %d goroutines", kb>>10, goroutines)
	if kb > 500<<10 || goroutines == 0 || goroutines > 2000 {
		t.Errorf("%d MB and %d goroutines, want at most 500 MB and 2000", kb>>10, goroutines)
	}
}
