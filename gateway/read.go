package gateway

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/gateway/shape"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// request is what was asked, as the parameters of its route have read it.
type request struct {
	now time.Time

	store, key             string
	keyFormat, valueFormat string
	timeout                time.Duration

	policy *iqv1.ReadPolicy // nil when the caller names none
	mode   string           // that the policy names; empty for none

	partitions                     []int32
	windowStart, sessionEnd, asOf  *int64
	from, after, to, before        *string // keys
	prefix                         *string
	filter                         string
	times                          *iqv1.TimeRange
	reverse, keysOnly, byPartition bool
	approximate, explain           bool
	changesOnly, standbysOnly      bool
	limit, count                   int64
	fields                         []string
	pageToken                      []byte
	positions                      []*iqv1.PartitionPosition
	partitioner                    string
}

// read is the policy to write to.
func (r *request) read() *iqv1.ReadPolicy {
	if r.policy == nil {
		r.policy = &iqv1.ReadPolicy{}
	}
	return r.policy
}

// wait is how long the server may hold the read.
func (r *request) wait() time.Duration { return r.policy.GetWait().AsDuration() }

// setPolicy reads one item of a policy as iqctl writes it.
func (r *request) setPolicy(text string) error {
	name, value, bound := strings.Cut(text, "=")
	modes := map[string]iqv1.ReadPolicy_Mode{
		"strong": iqv1.ReadPolicy_MODE_STRONG, "active": iqv1.ReadPolicy_MODE_ACTIVE, "any": iqv1.ReadPolicy_MODE_ANY,
	}
	switch mode, known := modes[text]; {
	case known && r.mode != "" && r.mode != text:
		return fmt.Errorf("contradicts %s; give one of them", r.mode)
	case known:
		r.mode, r.read().Mode = text, mode
		return nil
	case bound && name == "max_staleness":
		return r.setMaxStaleness(value)
	case bound && name == "max_offset_lag":
		return r.setMaxOffsetLag(value)
	}
	return errors.New("must be strong, active, any, max_staleness=DURATION or max_offset_lag=N")
}

func (r *request) setMaxStaleness(text string) error {
	d, err := parseDuration(text)
	r.read().MaxStaleness = durationpb.New(d)
	return err
}

func (r *request) setMaxOffsetLag(text string) error {
	n, err := parseCount(text)
	r.read().MaxOffsetLag = &n
	return err
}

func (r *request) setWait(text string) error {
	d, err := parseDuration(text)
	r.read().Wait = durationpb.New(d)
	return err
}

func (r *request) setPrefer(text string) error {
	name, rack, _ := strings.Cut(text, "=")
	switch {
	case text == "active":
		r.read().Prefer = iqv1.ReadPolicy_PREFER_ACTIVE
	case text == "least_loaded":
		r.read().Prefer = iqv1.ReadPolicy_PREFER_LEAST_LOADED
	case name == "nearest" && rack != "":
		r.read().Prefer, r.read().Rack = iqv1.ReadPolicy_PREFER_NEAREST, rack
	default:
		return errors.New("must be active, least_loaded or nearest=RACK")
	}
	return nil
}

// setAtLeast reads topic/partition@offset. A topic's name has neither sign.
func (r *request) setAtLeast(text string) error {
	topic, rest, ok1 := strings.Cut(text, "/")
	number, at, ok2 := strings.Cut(rest, "@")
	partition, err1 := parsePartition(number)
	offset, err2 := parseCount(at)
	if !ok1 || !ok2 || topic == "" || err1 != nil || err2 != nil {
		return errors.New("must be TOPIC/PARTITION@OFFSET, such as orders/2@1500")
	}
	if r.read().GetAtLeast() == nil {
		r.read().AtLeast = &iqv1.Position{}
	}
	r.policy.AtLeast.Offsets = append(r.policy.AtLeast.Offsets, &iqv1.PartitionOffset{Topic: topic, Partition: partition, Offset: offset})
	return nil
}

func (r *request) setUncommitted(text string) error {
	yes, err := parseBool(text)
	if yes {
		r.read().Isolation = iqv1.ReadPolicy_ISOLATION_READ_UNCOMMITTED
	}
	return err
}

func (r *request) addPartition(text string) error {
	p, err := parsePartition(text)
	r.partitions = append(r.partitions, p)
	return err
}

// addPosition reads partition@position.
func (r *request) addPosition(text string) error {
	number, at, _ := strings.Cut(text, "@")
	p, err1 := parsePartition(number)
	position, err2 := parseCount(at)
	if err1 != nil || err2 != nil {
		return errors.New("must be PARTITION@POSITION, such as 2@1500")
	}
	r.positions = append(r.positions, &iqv1.PartitionPosition{Partition: p, Position: position})
	return nil
}

// setTimes reads from..to; an end that is left out is no bound.
func (r *request) setTimes(text string) error {
	from, to, ok := strings.Cut(text, "..")
	if !ok {
		return errors.New("must be FROM..TO, such as -1h..-5m")
	}
	return errors.Join(r.setTime(from, &r.rangeOfTimes().FromMs), r.setTime(to, &r.rangeOfTimes().ToMs))
}

func (r *request) rangeOfTimes() *iqv1.TimeRange {
	if r.times == nil {
		r.times = &iqv1.TimeRange{}
	}
	return r.times
}

// setTime reads a time into ms, unless there is no text.
func (r *request) setTime(text string, ms **int64) error {
	if text == "" {
		return nil
	}
	at, err := shape.ParseTime(text, r.now)
	*ms = new(at.UnixMilli())
	return err
}

func (r *request) setPageToken(text string) (err error) {
	if r.pageToken, err = base64.RawURLEncoding.DecodeString(text); err != nil {
		return errors.New("is not one that a scan has given")
	}
	return nil
}

func parseBool(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, errors.New("must be true or false")
	}
	return text == "true", nil
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errors.New("must be a duration such as 5s or 500ms, 0s or more")
	}
	return d, nil
}

func parseCount(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, errors.New("must be a whole number, 0 or more")
	}
	return int64(n), nil
}

func parsePartition(text string) (int32, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, errors.New("must be a partition's number, 0 or more")
	}
	return int32(n), nil
}
