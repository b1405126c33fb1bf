package avail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/client"
)

// The side table is for the faults that lose a changelog: what is in it is written anew afterwards.
const (
	sideStore    = "side"
	sideTopic    = "iqbench-side"
	sideYAML     = "  - {topic: " + sideTopic + ", format: raw, value_serde: string}\n"
	sideTable    = "tables:\n  - {store: " + sideStore + ", source: " + sideTopic + "}\n"
	sideTimeout  = time.Minute
	topicPause   = 2 * time.Second
	truncateKeep = 2 * time.Second // of processing stays behind the new start of a changelog
)

func changelogOf(store string) string { return application + "-" + store + "-changelog" }

// sideKeys are the keys of the side table.
func (r *run) sideKeys() (keys []string) {
	for _, of := range r.feed.keys {
		keys = append(keys, of[:2]...)
	}
	return keys
}

// writeSide gives every key of the side table a new value, and waits until strong reads show it.
func (r *run) writeSide(ctx context.Context) error {
	r.mixed.version++
	value := fmt.Sprintf("version %d", r.mixed.version)
	ctx, cancel := context.WithTimeoutCause(ctx, sideTimeout, fmt.Errorf("the side table does not have %s everywhere after %s", value, sideTimeout))
	defer cancel()
	for _, key := range r.sideKeys() {
		if err := r.kafka.ProduceSync(ctx, &kgo.Record{Topic: sideTopic, Key: []byte(key), Value: []byte(value)}).FirstErr(); err != nil {
			return fmt.Errorf("write to %s: %w", sideTopic, err)
		}
	}
	for _, key := range r.sideKeys() {
		for {
			res, err := r.asking[0].Get(ctx, sideStore, []byte(key), client.Strong(), client.Wait(time.Second))
			if err == nil && string(res.Value) == value {
				break
			}
			if !sleep(ctx, poll) {
				return fmt.Errorf("%w: %s is %q, %w", context.Cause(ctx), key, res.Value, err)
			}
		}
	}
	return nil
}

// sideStale says which keys of the side table do not have the newest value, under any policy: nothing of before may show.
func (r *run) sideStale(ctx context.Context) (broken []string) {
	if r.mixed.version == 0 {
		return nil
	}
	want := fmt.Sprintf("version %d", r.mixed.version)
	for _, key := range r.sideKeys() {
		for _, policy := range []client.ReadOption{client.Strong(), client.MaxOffsetLag(0), client.Any()} {
			res, err := r.asking[0].Get(ctx, sideStore, []byte(key), policy, client.Wait(verifyWait))
			if err != nil || string(res.Value) != want {
				broken = append(broken, fmt.Sprintf("key %s of the side table is %q, want %q: %v", key, res.Value, want, err))
			}
		}
	}
	return broken
}

// faultTruncate deletes the beginning of the counts' changelog while a node is down whose position lies in it: its copies do not
// fit any more and must be built anew. Every key is counted again behind the new start, so nothing is lost.
func (r *run) faultTruncate(ctx context.Context) (string, error) {
	m, of, err := r.victim(ctx)
	if err != nil {
		return "", err
	}
	m.kill()
	adm := kadm.NewClient(r.kafka)
	log := changelogOf(store)
	start, err := r.processedOn(ctx, adm, log)
	if err == nil {
		err = setPolicy(ctx, adm, log, "compact,delete")
	}
	if err == nil {
		_, err = adm.DeleteRecords(ctx, start)
		err = errors.Join(err, setPolicy(ctx, adm, log, "compact"))
	}
	detail := fmt.Sprintf("%s was down, active for %d partitions: changelog %s now starts where it ended meanwhile", m.name, len(of), log)
	r.say(detail)
	return detail, errors.Join(err, m.start(), m.listens(ctx))
}

// processedOn waits until each partition of a changelog has grown by more than two records a key beyond the offsets that it
// returns.
func (r *run) processedOn(ctx context.Context, adm *kadm.Client, log string) (kadm.Offsets, error) {
	if !sleep(ctx, topicPause) { // until somebody has taken over
		return nil, context.Cause(ctx)
	}
	begin, err := adm.ListEndOffsets(ctx, log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, sideTimeout, fmt.Errorf("changelog %s does not grow", log))
	defer cancel()
	for sleep(ctx, truncateKeep) {
		now, err := adm.ListEndOffsets(ctx, log)
		if err != nil {
			return nil, err
		}
		grown := true
		begin.Each(func(o kadm.ListedOffset) {
			if n, ok := now.Lookup(o.Topic, o.Partition); !ok || n.Offset < o.Offset+3*keysPerPartition {
				grown = false
			}
		})
		if grown {
			return begin.Offsets(), nil
		}
	}
	return nil, context.Cause(ctx)
}

func setPolicy(ctx context.Context, adm *kadm.Client, topic, value string) error {
	got, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "cleanup.policy", Value: &value}}, topic)
	if err == nil {
		_, err = got.On(topic, func(a *kadm.AlterConfigsResponse) error { return a.Err })
	}
	if err != nil {
		return fmt.Errorf("set cleanup.policy of %s to %s: %w", topic, value, err)
	}
	return nil
}

// faultRecreate deletes the changelog of the side table and makes it anew, under everybody's feet, and then writes the
// table again: nothing of before may ever show.
func (r *run) faultRecreate(ctx context.Context) (string, error) {
	adm := kadm.NewClient(r.kafka)
	log := changelogOf(sideStore)
	if _, err := adm.DeleteTopic(ctx, log); err != nil {
		return "", fmt.Errorf("delete %s: %w", log, err)
	}
	compact := "compact"
	ctx, cancel := context.WithTimeoutCause(ctx, sideTimeout, fmt.Errorf("%s cannot be made anew", log))
	defer cancel()
	for {
		_, err := adm.CreateTopic(ctx, int32(r.o.Partitions), 1, map[string]*string{"cleanup.policy": &compact}, log)
		if err == nil {
			break
		}
		if !sleep(ctx, poll) {
			return "", fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
	r.say(log + " was deleted and made anew")
	if !sleep(ctx, topicPause) {
		return "", context.Cause(ctx)
	}
	return log + " was deleted and made anew", r.writeSide(ctx)
}
