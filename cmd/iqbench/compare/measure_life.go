package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// deadFor is how long a killed process is away.
const deadFor = time.Second

// nodeLife is a node from its first record on: it processes everything, is restored with its stores wiped, and is started
// with them in place, after a clean stop and after a kill.
type nodeLife struct{}

func (nodeLife) gives() []string {
	return []string{fNodeRecords, fNodeMemory, fNodeRecordCPU, fNodeRestore, fNodeClean, fNodeCrash}
}

func (nodeLife) take(ctx context.Context, r *run) error {
	app := r.app("life")
	m, err := r.node(app, "node-1", events, 0)
	if err != nil {
		return err
	}
	defer m.kill()
	if err := r.process(ctx, m, app, fNodeRecords, fNodeMemory, fNodeRecordCPU); err != nil {
		return err
	}
	if r.wants(fNodeRestore) {
		m.stop()
		if err := os.RemoveAll(r.stateOf(app, "node-1")); err != nil {
			return err
		}
		begin := time.Now()
		if err := r.start(m); err != nil {
			return err
		}
		rate, err := r.restoreRate(ctx, m, app, begin)
		if err != nil {
			return err
		}
		r.sayRecords(m.name+": restored", rate)
		r.give(fNodeRestore, rate)
		if err := r.awaitServing(ctx, m, r.sample); err != nil {
			return err
		}
	}
	if err := r.startAgain(ctx, m, fNodeClean, false); err != nil {
		return err
	}
	return r.startAgain(ctx, m, fNodeCrash, true)
}

// streamsLife is the same of Kafka Streams. What survives a kill needs transactional stores, which cost it speed, so it goes
// through everything else without them, as it is by default.
type streamsLife struct{}

func (streamsLife) gives() []string {
	return []string{fPeerRecords, fPeerMemory, fPeerRecordCPU, fPeerRestore, fPeerClean, fPeerCrash, fFollow}
}

func (streamsLife) take(ctx context.Context, r *run) error {
	app := r.app("life-streams")
	m, err := r.streams(ctx, streamsOptions{app: app, name: "one"})
	if err != nil {
		return err
	}
	defer m.kill()
	if err := r.process(ctx, m, app, fPeerRecords, fPeerMemory, fPeerRecordCPU); err != nil {
		return err
	}
	if r.wants(fPeerRestore) {
		m.stop()
		if err := os.RemoveAll(r.stateOf(app, "one")); err != nil {
			return err
		}
		if err := r.start(m); err != nil {
			return err
		}
		if err := r.awaitServing(ctx, m, r.sample); err != nil {
			return err
		}
		all, err := lastRun(m)
		if err != nil {
			return err
		}
		rate, err := restoredRate(all)
		if err != nil {
			return err
		}
		r.sayRecords(m.name+": restored", rate)
		r.give(fPeerRestore, rate)
	}
	if err := r.follow(ctx, app); err != nil {
		return err
	}
	if err := r.startAgain(ctx, m, fPeerClean, false); err != nil {
		return err
	}
	if !r.wants(fPeerCrash) || r.o.Quick && r.round > 0 { // told for comparison alone
		return nil
	}
	m.stop()
	if err := os.RemoveAll(r.stateOf(app, "one")); err != nil {
		return err
	}
	tx, err := r.streams(ctx, streamsOptions{app: app, name: "one", transactional: true})
	if err != nil {
		return err
	}
	defer tx.kill()
	if err := r.start(tx); err != nil {
		return err
	}
	if err := r.awaitServing(ctx, tx, r.sample); err != nil {
		return err
	}
	return r.startAgain(ctx, tx, fPeerCrash, true)
}

// process starts a program and measures how fast it processes everything, and the memory that this took.
func (r *run) process(ctx context.Context, m *member, app, records, memory, recordCPU string) error {
	if err := r.start(m); err != nil {
		return err
	}
	total, err := r.records(ctx, events)
	if err != nil {
		return err
	}
	rate, err := r.awaitProcessed(ctx, m, app)
	if err != nil {
		return err
	}
	cpu, err := cpuOf([]*member{m})
	if err != nil {
		return err
	}
	each := micros(cpu) / float64(total)
	peak, err := peakMemory(m.proc.PID())
	if err != nil {
		return err
	}
	if rate > 0 {
		r.give(records, rate)
	} else if r.wants(records) {
		return fmt.Errorf("%s processed everything between two looks: there is too little input", m.name)
	}
	r.give(memory, peak)
	r.give(recordCPU, each)
	r.sayRecords(fmt.Sprintf("%s: processed, peak memory %.0f MB, %.1fus CPU per record,", m.name, peak, each), rate)
	return r.awaitServing(ctx, m, r.sample)
}

// startAgain ends a program, by SIGTERM or, with input flowing, by SIGKILL, and measures how long it takes from its next
// start until it serves every partition.
func (r *run) startAgain(ctx context.Context, m *member, figure string, crash bool) error {
	if !r.wants(figure) {
		return nil
	}
	if crash {
		stop := r.trickle(ctx)
		defer stop()
		if !sleep(ctx, deadFor) {
			return context.Cause(ctx)
		}
		m.kill()
		if !sleep(ctx, deadFor) {
			return context.Cause(ctx)
		}
	} else {
		m.stop()
	}
	begin := time.Now()
	if err := r.start(m); err != nil {
		return err
	}
	if err := r.awaitServing(ctx, m, r.sample); err != nil {
		return err
	}
	took := time.Since(begin)
	how := "after a clean stop"
	if crash {
		how = "after kill -9"
	}
	r.say(fmt.Sprintf("%s: serves %.2fs from its start %s", m.name, took.Seconds(), how))
	r.give(figure, took.Seconds())
	return nil
}

// cpuOf is the processor time that the current runs of some programs have used.
func cpuOf(members []*member) (time.Duration, error) {
	var sum time.Duration
	for _, m := range members {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(m.proc.PID()), "stat"))
		if err != nil {
			return 0, err
		}
		used, err := parseCPU(string(text))
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// clockTick is Linux's unit of processor time in /proc, the same on every architecture.
const clockTick = 10 * time.Millisecond

// parseCPU adds a process's user and system time up: the 14th and 15th field, counted behind its name, which may have blanks
// and brackets.
func parseCPU(stat string) (time.Duration, error) {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) < 13 {
		return 0, fmt.Errorf("no process's stat: %q", stat)
	}
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * clockTick, errors.Join(err1, err2)
}

// peakMemory is the most memory, in MB, that a process has had resident.
func peakMemory(pid int) (float64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	return parsePeak(string(text))
}

// parsePeak finds VmHWM in a process's status.
func parsePeak(status string) (float64, error) {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			if f := strings.Fields(rest); len(f) == 2 && f[1] == "kB" {
				kib, err := strconv.ParseFloat(f[0], 64)
				return kib * 1024 / 1e6, err
			}
		}
	}
	return 0, fmt.Errorf("no VmHWM in the status %q", status)
}
