package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/bench/peer"
	"github.com/iqgate/iqgate/cmd/internal/human"
	"github.com/iqgate/iqgate/integration/process"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// maxWarmTimes bounds how many times longer than meant a JVM is warmed up.
const maxWarmTimes = 4

// streamsOptions is what differs between instances of the peer.
type streamsOptions struct {
	app, name     string
	transactional bool
	spread        bool // over the instances at once
}

// streams is an instance of the peer, not yet started.
func (r *run) streams(ctx context.Context, o streamsOptions) (*member, error) {
	if r.o.Kafka != kafkaReal {
		return nil, &missingError{"Kafka Streams needs --kafka real"}
	}
	if r.program == nil {
		r.say("building the Kafka Streams peer, unless it is in the cache")
		var err error
		if r.program, err = peer.Build(ctx); err != nil {
			return nil, err
		}
	}
	address, err := process.Address()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return &member{name: o.app + " " + o.name, address: address, spec: r.program.Spec(peer.Options{
		Brokers: r.brokers, Application: o.app, Topic: events, StateDir: r.stateOf(o.app, o.name), Port: port,
		NoCache: true, TransactionalStores: o.transactional, SpreadAtOnce: o.spread, Log: r.file(o.app + "-" + o.name + ".log"),
	})}, nil
}

// warm has a JVM compile what it will be measured with: for a while and some lookups, on a slow machine for longer.
func (r *run) warm(ctx context.Context, m *member, requests [][]byte) error {
	r.say("warming up " + m.name)
	answered := 0
	for n := range maxWarmTimes {
		if n > 0 && answered >= r.size.jvmWarmReads {
			break
		}
		res, err := load{conns: loadConns, inFlight: loadInFlight, length: r.size.jvmWarm, failuresOK: true}.run(ctx, m.address, requests)
		if err != nil {
			return err
		}
		answered += res.answered
	}
	r.say(fmt.Sprintf("%s has answered %s lookups", m.name, human.Thousands(int64(answered))))
	return nil
}

// localStreams starts one instance that has everything, warm, or gives the group's.
func (r *run) localStreams(ctx context.Context) (*member, error) {
	return subject(r, "streams", func() (*member, error) {
		app := r.app("streams")
		m, err := r.streams(ctx, streamsOptions{app: app, name: "one"})
		if err != nil {
			return nil, err
		}
		r.say("starting Kafka Streams")
		if err := r.start(m); err != nil {
			return nil, err
		}
		if _, err := r.awaitProcessed(ctx, m, app); err != nil {
			return nil, err
		}
		if err := r.awaitServing(ctx, m, r.sample); err != nil {
			return nil, err
		}
		return m, r.warm(ctx, m, r.requests)
	})
}

// A remotePair is two instances: one that is asked, and the other one, which has all that the first is asked for.
type remotePair struct {
	members  []*member // the first is asked
	requests [][]byte
}

// remoteStreams starts two instances, warm, or gives the group's.
func (r *run) remoteStreams(ctx context.Context) (remotePair, error) {
	return subject(r, "streams pair", func() (remotePair, error) {
		app := r.app("streams-pair")
		r.say("starting two instances of Kafka Streams")
		var both []*member
		for _, name := range []string{"one", "two"} {
			m, err := r.streams(ctx, streamsOptions{app: app, name: name, spread: true})
			if err != nil {
				return remotePair{}, err
			}
			if err := r.start(m); err != nil {
				return remotePair{}, err
			}
			both = append(both, m)
		}
		for _, m := range both {
			if _, err := r.awaitProcessed(ctx, m, app); err != nil {
				return remotePair{}, err
			}
			if err := r.awaitServing(ctx, m, r.sample); err != nil {
				return remotePair{}, err
			}
		}
		pair := remotePair{members: both}
		var err error
		if pair.requests, err = r.requestsElsewhere(ctx, both[0]); err != nil {
			return remotePair{}, err
		}
		return pair, r.warm(ctx, both[0], pair.requests)
	})
}

// requestsElsewhere are the lookups that an instance has to pass on, by who answers for a partition.
func (r *run) requestsElsewhere(ctx context.Context, m *member) ([][]byte, error) {
	cc, err := dial(m.address)
	if err != nil {
		return nil, err
	}
	defer cc.Close() //nolint:errcheck // nothing is lost
	var keys []string
	for p, of := range r.byPartition() {
		reply, err := lookup(ctx, cc, r.sample[p])
		if err != nil {
			return nil, err
		}
		if reply.GetServed().GetNode() != m.address {
			keys = append(keys, of...)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has every partition: nothing is remote", m.name)
	}
	return requests(store, keys)
}

// peerEvent is a line that the peer prints.
type peerEvent struct {
	AtMS    int64  `json:"t"`
	Event   string `json:"event"`
	Records int64  `json:"records"`
}

// eventsOf are the events in a log, in order.
func eventsOf(log string) []peerEvent {
	var all []peerEvent
	for line := range strings.Lines(log) {
		var e peerEvent
		if strings.HasPrefix(line, `{"t":`) && json.Unmarshal([]byte(line), &e) == nil {
			all = append(all, e)
		}
	}
	return all
}

// restoredRate is the rate of a restore, from its first start to its last end.
func restoredRate(all []peerEvent) (float64, error) {
	var begin, end, records int64
	for _, e := range all {
		switch e.Event {
		case "restore_start":
			if begin == 0 {
				begin = e.AtMS
			}
		case "restore_end":
			end, records = max(end, e.AtMS), records+e.Records
		}
	}
	if records == 0 || end <= begin {
		return 0, fmt.Errorf("%d records were restored in %dms", records, end-begin)
	}
	return float64(records) / (time.Duration(end-begin) * time.Millisecond).Seconds(), nil
}

// lastRun is the events of the current run of the peer.
func lastRun(m *member) ([]peerEvent, error) {
	log, err := m.proc.Log()
	if err != nil {
		return nil, err
	}
	all := eventsOf(log)
	for i, e := range slices.Backward(all) {
		if e.Event == "main" {
			return all[i:], nil
		}
	}
	return all, nil
}

// echoReply is a node's reply as bytes, for the bare server to answer with.
func echoReply(reply *iqv1.GetResponse) ([]byte, error) { return proto.Marshal(reply) }
