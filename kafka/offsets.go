package kafka

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/iqgate/iqgate/fault"
	"github.com/iqgate/iqgate/metadata"
)

// byTopic groups partitions, in which those of a topic stand together, as requests want them.
func byTopic(tps []metadata.TopicPartition) iter.Seq2[string, []int32] {
	return func(yield func(string, []int32) bool) {
		for i := 0; i < len(tps); {
			topic := tps[i].Topic
			var partitions []int32
			for ; i < len(tps) && tps[i].Topic == topic; i++ {
				partitions = append(partitions, tps[i].Partition)
			}
			if !yield(topic, partitions) {
				return
			}
		}
	}
}

// Timestamps that ListOffsets understands (ListOffsetsRequest's EARLIEST_TIMESTAMP and LATEST_TIMESTAMP).
const (
	AtStart = -2
	AtEnd   = -1
)

// ListOffsets asks each leader once for the start or the end (high watermark) of partitions. A partition that could
// not be asked is left out; err is set when no broker answered.
func ListOffsets(ctx context.Context, cl *kgo.Client, tps []metadata.TopicPartition, at int64) (map[metadata.TopicPartition]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	if fault.RestoreToLSO {
		req.IsolationLevel = 1 // then it is not the high watermark
	}
	for topic, partitions := range byTopic(tps) {
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = topic
		for _, p := range partitions {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p, at, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	got := make(map[metadata.TopicPartition]int64, len(tps))
	var firstErr error
	for _, shard := range cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			firstErr = errors.Join(firstErr, shard.Err)
			continue
		}
		resp, ok := shard.Resp.(*kmsg.ListOffsetsResponse)
		if !ok {
			continue
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					firstErr = errors.Join(firstErr, fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, err))
					continue
				}
				got[metadata.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = p.Offset
			}
		}
	}
	if len(got) == 0 && firstErr != nil {
		return nil, fmt.Errorf("ask for offsets: %w", firstErr)
	}
	return got, nil
}

// A Commit is what a group has committed, or is to commit, for one input partition.
type Commit struct {
	Offset int64 // of the next record; -1 stands for none
	// Metadata is text that the group keeps with the offset, at most the broker's offset.metadata.max.bytes (4096 by default).
	Metadata string
}

// ErrUnstable says that a transaction's offsets are not decided yet.
var ErrUnstable = errors.New("a transaction with these offsets is not decided yet")

// CommittedOffsets is Committed without the metadata.
func CommittedOffsets(ctx context.Context, cl *kgo.Client, group string, tps []metadata.TopicPartition, stable bool) (map[metadata.TopicPartition]int64, error) {
	commits, err := Committed(ctx, cl, group, tps, stable)
	if err != nil {
		return nil, err
	}
	return OffsetsOf(commits), nil
}

// OffsetsOf are the offsets of commits.
func OffsetsOf(commits map[metadata.TopicPartition]Commit) map[metadata.TopicPartition]int64 {
	offsets := make(map[metadata.TopicPartition]int64, len(commits))
	for tp, c := range commits {
		offsets[tp] = c.Offset
	}
	return offsets
}

// Committed asks the group's coordinator for what is committed. With stable it fails with ErrUnstable while a transaction
// that committed offsets of one of tps is open (KIP-447).
func Committed(ctx context.Context, cl *kgo.Client, group string, tps []metadata.TopicPartition, stable bool) (map[metadata.TopicPartition]Commit, error) {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.RequireStable = group, stable
	for topic, partitions := range byTopic(tps) {
		rt, gt := kmsg.NewOffsetFetchRequestTopic(), kmsg.NewOffsetFetchRequestGroupTopic()
		rt.Topic, rt.Partitions = topic, partitions
		gt.Topic, gt.Partitions = topic, partitions
		req.Topics, g.Topics = append(req.Topics, rt), append(g.Topics, gt)
	}
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil && len(resp.Groups) > 0 {
		err = kerr.ErrorForCode(resp.Groups[0].ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("ask for committed offsets of group %s: %w", group, err)
	}
	got := make(map[metadata.TopicPartition]Commit, len(tps))
	take := func(topic string, partition int32, offset int64, text *string, code int16) error {
		switch err := kerr.ErrorForCode(code); {
		case errors.Is(err, kerr.UnstableOffsetCommit):
			return ErrUnstable
		case err != nil:
			return fmt.Errorf("ask for the committed offset of %s-%d: %w", topic, partition, err)
		}
		c := Commit{Offset: offset}
		if text != nil {
			c.Metadata = *text
		}
		got[metadata.TopicPartition{Topic: topic, Partition: partition}] = c
		return nil
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := take(t.Topic, p.Partition, p.Offset, p.Metadata, p.ErrorCode); err != nil {
				return nil, err
			}
		}
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if err := take(t.Topic, p.Partition, p.Offset, p.Metadata, p.ErrorCode); err != nil {
					return nil, err
				}
			}
		}
	}
	return got, nil
}

// A Committer is who commits offsets: a static member of a group in one generation. The group refuses a member or
// generation that is not the newest (KIP-447).
type Committer struct {
	Group      string
	MemberID   string // given by the group
	Generation int32
	Instance   string // group.instance.id
}

// CommitOffsets commits offsets outside of any transaction, for input that led to nothing being produced: a transaction of
// offsets alone is one that the client does not know to have begun and would never end.
func CommitOffsets(ctx context.Context, cl *kgo.Client, by Committer, commits map[metadata.TopicPartition]Commit) error {
	err := retry(ctx, func() error {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation, req.MemberID, req.InstanceID = by.Group, by.Generation, by.MemberID, &by.Instance
		for topic, partitions := range byTopic(sortedCommits(commits)) {
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic = topic
			for _, p := range partitions {
				rp := kmsg.NewOffsetCommitRequestTopicPartition()
				c := commits[metadata.TopicPartition{Topic: topic, Partition: p}]
				rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, c.Offset, -1, &c.Metadata
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
		}
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, rp := range t.Partitions {
				if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("commit offsets: %w", err)
	}
	return nil
}

func sortedCommits(commits map[metadata.TopicPartition]Commit) []metadata.TopicPartition {
	return slices.SortedFunc(maps.Keys(commits), metadata.TopicPartition.Compare)
}
