//go:build kafka && java

package integration

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/integration/javaapp"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// javaEvents is how many records the application counts.
const javaEvents = 100_000

// Two nodes in replica mode and a router stand in front of a Kafka Streams application that knows nothing of them, is killed in
// the middle of its transactions and started again. At lag 0 they answer every key, window, session and version as the
// application's own interactive queries do, and what they answered on the way was committed.
func TestReplicaModeAnswersAsTheKafkaStreamsApplication(t *testing.T) {
	for _, c := range []struct {
		name string
		java javaapp.Options
	}{
		{"exactly_once_v2", javaapp.Options{Guarantee: "exactly_once_v2"}},
		{"at_least_once with headers", javaapp.Options{Guarantee: "at_least_once", StoreFormat: "HEADERS", CommitMS: "200"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := newFollowedApp(t, followYAML, 3)
			exactly := c.java.Guarantee == "exactly_once_v2"
			rt := a.startRouter("r1")
			a.start("a")
			a.start("b")
			j := a.java(c.java)
			j.run()

			fed := a.feedJava(exactly)
			seen := a.watchCounts(rt.Client)
			a.eventually(60*time.Second, "the application is in the middle", func() error {
				at, err := a.committedIn()
				if err == nil && at < javaEvents/4 {
					err = fmt.Errorf("it has processed %d", at)
				}
				return err
			})
			if exactly {
				j.Kill()
				a.pause(time.Second)
				j.run()
			}
			if err := <-fed; err != nil {
				t.Fatal(err)
			}
			a.caughtUp("in", "users")
			for _, store := range []string{"counts", "win", "sess", "ver", "plain", "tab"} {
				var opts []client.ReadOption
				if store == "ver" {
					opts = append(opts, everyVersion())
				}
				java, err := j.lines(store)
				if err != nil {
					t.Fatal(err)
				}
				ours, err := a.rows(rt.Client, store, opts...)
				if err != nil {
					t.Fatalf("%s: %v", store, err)
				}
				sameLines(t, store, java, ours)
				t.Logf("%s: %d lines are the same", store, len(java))
				if len(java) < 1000 {
					t.Errorf("%s: the application has %d lines, too few to tell anything", store, len(java))
				}
			}
			a.getsAgree(j, rt.Client)
			a.lagsAreZero()
			a.judgeCounts(seen(), exactly)
		})
	}
}

// feedJava writes the application's input, at a rate that leaves time to be killed in between, and its users; the channel tells
// the end.
func (a *app) feedJava(slowly bool) <-chan error {
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			for i := range 1500 {
				a.kafka.Produce(a.ctx, &kgo.Record{Topic: a.topic("users"), Key: fmt.Appendf(nil, "user-%d", i%1200), Value: fmt.Appendf(nil, "u%d", i)}, nil)
			}
			const batch = 2000
			for i := 0; i < javaEvents; i += batch {
				var recs []*kgo.Record
				for k := range batch {
					recs = append(recs, javaEvent(i+k, a.topic("in")))
				}
				if err := a.kafka.ProduceSync(a.ctx, recs...).FirstErr(); err != nil {
					return err
				}
				if slowly {
					time.Sleep(100 * time.Millisecond) // 20,000 records a second
				}
			}
			return nil
		}()
	}()
	return done
}

// committedIn is how much of its input the application has processed.
func (a *app) committedIn() (int64, error) {
	commits, err := a.admin.FetchOffsets(a.ctx, a.name)
	if err != nil {
		return 0, err
	}
	var sum int64
	for p := range int32(3) {
		if at, ok := commits.Lookup(a.topic("in"), p); ok {
			sum += at.At
		}
	}
	return sum, nil
}

// seenCount is a count that a replica has answered, and as of where.
type seenCount struct {
	key       string
	partition int32
	position  int64
	count     int64
}

// watchCounts reads counts from whatever replica answers until the function that it returns is called, which gives what was
// seen.
func (a *app) watchCounts(from *client.Client) func() []seenCount {
	ctx, stop := context.WithCancel(a.ctx)
	var all []seenCount
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			key := fmt.Sprintf("key-%d", i*7%2000)
			res, err := from.Get(ctx, "counts", []byte(key), client.Any())
			if err != nil {
				time.Sleep(10 * time.Millisecond) // there is nobody yet
				continue
			}
			s := seenCount{key: key, partition: res.Partition, position: res.Position}
			if res.Found {
				s.count = int64(binary.BigEndian.Uint64(res.Value)) // Java's big-endian long
			}
			all = append(all, s)
			time.Sleep(time.Millisecond)
		}
	})
	return func() []seenCount {
		stop()
		wg.Wait()
		return all
	}
}

// judgeCounts says whether each count was the newest committed one below the position at which it was read: nothing of an
// aborted transaction, nothing half. With exactly-once there must have been aborted records, or nothing was tried.
func (a *app) judgeCounts(seen []seenCount, aborted bool) {
	a.t.Helper()
	committed := a.readAll("counts-changelog")
	all := a.readAll("counts-changelog", kgo.FetchIsolationLevel(kgo.ReadUncommitted()))
	if n := len(all) - len(committed); aborted && n == 0 {
		a.t.Error("no record was aborted: the application was not killed in a transaction")
	} else {
		a.t.Logf("%d records of the changelog are committed, %d aborted; %d reads on the way", len(committed), n, len(seen))
	}
	type place struct {
		key       string
		partition int32
	}
	history := make(map[place][]*kgo.Record)
	for _, r := range committed {
		p := place{string(r.Key), r.Partition}
		history[p] = append(history[p], r)
	}
	wrong := 0
	for _, s := range seen {
		var want int64
		for _, r := range history[place{s.key, s.partition}] {
			if r.Offset < s.position {
				want = int64(binary.BigEndian.Uint64(r.Value))
			}
		}
		if s.count != want && wrong < 10 {
			wrong++
			a.t.Errorf("%s was %d at position %d of partition %d, where %d was committed", s.key, s.count, s.position, s.partition, want)
		}
	}
	if len(seen) < 100 {
		a.t.Errorf("only %d reads on the way", len(seen))
	}
}

// getsAgree looks some keys, windows and sessions up one by one, through the router and at the application itself.
func (a *app) getsAgree(j *javaInstance, router *client.Client) {
	a.t.Helper()
	java := a.ask(j.address)
	for _, store := range []string{"counts", "win", "sess", "ver", "plain", "tab"} {
		lines, err := j.lines(store)
		if err != nil {
			a.t.Fatal(err)
		}
		for i := 0; i < len(lines); i += max(1, len(lines)/50) {
			key, opts := lookupOf(a.t, store, lines[i])
			ours, err := router.Get(a.ctx, store, key, append(opts, client.MaxOffsetLag(0), client.Wait(5*time.Second))...)
			if err != nil {
				a.t.Fatalf("%s %q: %v", store, key, err)
			}
			theirs, err := java.Get(a.ctx, store, key, append(opts, client.Active(), client.Partition(ours.Partition))...)
			if err != nil {
				a.t.Fatalf("%s %q at the application: %v", store, key, err)
			}
			if !ours.Found || !theirs.Found || string(ours.Value) != string(theirs.Value) {
				a.t.Errorf("%s %q: %t %x here, %t %x there", store, key, ours.Found, ours.Value, theirs.Found, theirs.Value)
			}
		}
	}
}

// lookupOf is what to ask for a line of a dump.
func lookupOf(t *testing.T, store, line string) ([]byte, []client.ReadOption) {
	t.Helper()
	f := strings.Fields(line)
	var key []byte
	if _, err := fmt.Sscanf(f[0], "%x", &key); err != nil {
		t.Fatal(err)
	}
	at := func(text string) time.Time {
		var ms int64
		if _, err := fmt.Sscan(text, &ms); err != nil {
			t.Fatal(err)
		}
		return time.UnixMilli(ms)
	}
	switch store {
	case "win":
		return key, []client.ReadOption{client.InWindow(at(f[1]))}
	case "sess":
		return key, []client.ReadOption{client.InSession(at(f[1]), at(f[2]))}
	case "ver":
		return key, []client.ReadOption{client.AsOf(at(f[1]))}
	}
	return key, nil
}

// lagsAreZero waits until every copy on both nodes is running and at lag 0, behind the markers that end the changelogs (S05).
func (a *app) lagsAreZero() {
	a.t.Helper()
	for id, n := range a.nodes {
		a.eventually(20*time.Second, id+" is at lag 0", func() error {
			ctx, cancel := context.WithTimeout(a.ctx, askTimeout)
			defer cancel()
			replicas, err := n.Lags(ctx, "")
			if err != nil {
				return err
			}
			if len(replicas) != 18 {
				return fmt.Errorf("%d copies", len(replicas))
			}
			for _, r := range replicas {
				if r.OffsetLag == nil || r.GetOffsetLag() != 0 || r.GetState() != iqv1.ReplicaState_REPLICA_STATE_RUNNING || r.GetPosition() != r.GetEndPosition() {
					return errors.New(r.String())
				}
			}
			return nil
		})
	}
}

// With its two classes for iq.v1 a Java application answers the router's active reads itself, and its replicas go on when it is
// killed: active reads are then refused with the reason, stale ones are not.
func TestJavaApplicationServesActiveReadsThroughTheRouter(t *testing.T) {
	t.Parallel()
	a := newFollowedApp(t, followYAML, 3)
	rt := a.startRouter("r1")
	a.start("a")
	a.start("b")
	j := a.java(javaapp.Options{Routers: a.routerAddresses()})
	j.run()
	var recs []*kgo.Record
	for i := range 4000 {
		recs = append(recs, javaEvent(i, a.topic("in")))
	}
	if err := a.kafka.ProduceSync(a.ctx, recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	a.caughtUp("in")
	key := []byte("key-7")
	var res client.Result
	a.eventually(20*time.Second, "the application answers", func() (err error) {
		ctx, cancel := context.WithTimeout(a.ctx, askTimeout)
		defer cancel()
		res, err = rt.Get(ctx, "counts", key, client.Active())
		return err
	})
	if res.Role != iqv1.Role_ROLE_ACTIVE || !strings.HasPrefix(res.Node, "java-") || binary.BigEndian.Uint64(res.Value) != 2 || res.OffsetLag != 0 {
		t.Errorf("the active read gave %+v", res)
	}
	window := time.UnixMilli(javaEvent(7, "").Timestamp.UnixMilli() / 60_000 * 60_000)
	if res, err := rt.Get(a.ctx, "win", key, client.Active(), client.InWindow(window)); err != nil || !strings.HasPrefix(res.Node, "java-") || !res.Found {
		t.Errorf("the active read of a window gave %+v, %v", res, err)
	}
	if _, err := rt.Get(a.ctx, "counts", key, client.Strong()); !errors.Is(err, iqerr.ErrNoActive) || !strings.Contains(err.Error(), "strong") {
		t.Errorf("a strong read gave %v", err)
	}
	// Read your writes: the application says itself how far it is, the replicas by what it has committed.
	end, err := a.admin.ListEndOffsets(a.ctx, a.topic("in"))
	if err != nil {
		t.Fatal(err)
	}
	at, _ := end.Lookup(a.topic("in"), res.Partition)
	position := &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: a.topic("in"), Partition: res.Partition, Offset: at.Offset}}}
	for name, p := range map[string]client.ReadOption{"active": client.Active(), "any": client.Any()} {
		if res, err := rt.Get(a.ctx, "counts", key, p, client.AtLeast(position), client.Wait(5*time.Second)); err != nil || !res.Found {
			t.Errorf("%s with at_least gave %+v, %v", name, res, err)
		}
	}
	beyond := &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: a.topic("in"), Partition: res.Partition, Offset: at.Offset + 1}}}
	if _, err := rt.Get(a.ctx, "counts", key, client.Any(), client.AtLeast(beyond)); !errors.Is(err, iqerr.ErrPositionNotReached) {
		t.Errorf("at_least beyond the end gave %v", err)
	}

	j.Kill()
	a.eventually(10*time.Second, "active reads are refused", func() error {
		ctx, cancel := context.WithTimeout(a.ctx, askTimeout)
		defer cancel()
		_, err := rt.Get(ctx, "counts", key, client.Active())
		if !errors.Is(err, iqerr.ErrNoActive) {
			return fmt.Errorf("the active read gave %w", cmpErr(err))
		}
		return nil
	})
	began := time.Now()
	res, err = rt.Get(a.ctx, "counts", key, client.MaxStaleness(10*time.Second))
	if err != nil || res.Role != iqv1.Role_ROLE_STANDBY || binary.BigEndian.Uint64(res.Value) != 2 {
		t.Errorf("a stale read gave %+v, %v", res, err)
	}
	t.Logf("a stale read took %s", time.Since(began))
}

// cmpErr makes an answer an error too.
func cmpErr(err error) error {
	if err == nil {
		return errors.New("an answer")
	}
	return err
}

// import-check finds the stores of a Kafka Streams application by their topics, understands all but the windows' size, and all
// once the file says that.
func TestImportCheckUnderstandsTheKafkaStreamsApplication(t *testing.T) {
	t.Parallel()
	a := newFollowedApp(t, followYAML, 3)
	j := a.java(javaapp.Options{})
	j.run()
	var recs []*kgo.Record
	for i := range 8000 {
		recs = append(recs, javaEvent(i, a.topic("in")))
	}
	if err := a.kafka.ProduceSync(a.ctx, recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	a.caughtUp("in")
	type check struct {
		Stores []struct {
			Store, Kind string
			Served      bool
			Partitions  int32
			RetentionMS int64 `json:"retention_ms"`
			Problems    []struct{ Severity, Text string }
		}
		Reads []string
	}
	run := func(args ...string) (check, int) {
		t.Helper()
		args = append([]string{"import-check", a.name, "--brokers", shared.broker.Addr(), "-o", "json"}, args...)
		cmd := exec.CommandContext(a.ctx, program(a.ctx, t, "iqctl"), args...)
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		var c check
		if err := json.Unmarshal(out, &c); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return c, cmd.ProcessState.ExitCode()
	}
	found, code := run()
	kinds := make(map[string]string)
	for _, s := range found.Stores {
		kinds[s.Store] = s.Kind
		if wantServed := s.Store != "win"; s.Served != wantServed || s.Partitions != 3 {
			t.Errorf("%+v", s)
		}
		if s.Store == "sess" && s.RetentionMS != 20*60_000 || s.Store == "ver" && s.RetentionMS != 10*60_000 {
			t.Errorf("%+v", s)
		}
	}
	if code != 9 || len(kinds) != 5 || kinds["counts"] != "keyvalue" || kinds["win"] != "window" || kinds["sess"] != "session" || kinds["ver"] != "versioned" || kinds["plain"] != "keyvalue" {
		t.Errorf("code %d, kinds %v", code, kinds)
	}
	if !slices.Contains(found.Reads, a.topic("in")) {
		t.Errorf("the application reads %v", found.Reads)
	}
	told, code := run("--file", a.file)
	if code != 0 || len(told.Stores) != 6 {
		t.Errorf("with the file: code %d, %+v", code, told)
	}
	for _, s := range told.Stores {
		for _, p := range s.Problems {
			if p.Severity != "note" {
				t.Errorf("with the file: %s: %s: %s", s.Store, p.Severity, p.Text)
			}
		}
	}
}
