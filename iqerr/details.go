package iqerr

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Metadata keys of ErrorInfo. They are part of the wire: add, never rename.
const (
	keyStore         = "store"
	keyPartition     = "partition"
	keyTopic         = "topic"
	keyNode          = "node"
	keyField         = "field"
	keyValue         = "value"
	keyProblem       = "problem"
	keyWaiting       = "waiting_for"
	keyWant          = "partitions_expected"
	keyHave          = "partitions_actual"
	keyInFlight      = "in_flight"
	keyLimit         = "limit"
	keyRetryAfter    = "retry_after"
	keyMaxStaleness  = "max_staleness"
	keyMaxOffsetLag  = "max_offset_lag"
	keyAtLeast       = "at_least"
	keyBestOffsetLag = "best_offset_lag"
	keyBestTimeLag   = "best_time_lag"
	keyWaited        = "waited"
	keyAction        = "action"
)

// details are what a status carries besides code and text.
type details struct {
	reason   iqv1.Reason
	metadata map[string]string
	messages []proto.Message
}

// put sets a metadata value; an empty one is left out, which reads back the same.
func (d *details) put(key, value string) {
	if value == "" {
		return
	}
	if d.metadata == nil {
		d.metadata = map[string]string{}
	}
	d.metadata[key] = strings.ToValidUTF8(value, "\ufffd")
}

func (d *details) putInt(key string, n int64) { d.put(key, strconv.FormatInt(n, 10)) }

func (d *details) putDuration(key string, v time.Duration) { d.put(key, durationText(v)) }

func (d *details) add(m proto.Message) { d.messages = append(d.messages, m) }

// retryAfter adds RetryInfo, which generic clients know, when there is a hint.
func (d *details) retryAfter(v time.Duration) {
	if v <= 0 {
		return
	}
	d.putDuration(keyRetryAfter, v)
	d.add(&errdetails.RetryInfo{RetryDelay: durationpb.New(v)})
}

func (d *details) get(key string) string { return d.metadata[key] }

func (d *details) getInt(key string) int64 {
	n, _ := parseInt(d.get(key))
	return n
}

func (d *details) getInt32(key string) int32 {
	n, err := strconv.ParseInt(d.get(key), 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

func (d *details) getRetryAfter() time.Duration {
	return detail[*errdetails.RetryInfo](d).GetRetryDelay().AsDuration()
}

func (d *details) refusals() *iqv1.ReplicaRefusals { return detail[*iqv1.ReplicaRefusals](d) }

// detail gives the first detail message of type T, nil when there is none.
func detail[T proto.Message](d *details) T {
	for _, m := range d.messages {
		if t, ok := m.(T); ok {
			return t
		}
	}
	var none T
	return none
}

// optional gives a metadata value that may be absent; one that cannot be read counts as absent.
func optional[T any](d *details, key string, parse func(string) (T, error)) *T {
	text, ok := d.metadata[key]
	if !ok {
		return nil
	}
	v, err := parse(text)
	if err != nil {
		return nil
	}
	return &v
}

func parseInt(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }

// durationText gives a duration as protobuf's JSON does, which every language can read: "10s", "0.084s".
func durationText(v time.Duration) string {
	sign, seconds, nanos := "", v/time.Second, v%time.Second
	if v < 0 {
		sign, seconds, nanos = "-", -seconds, -nanos // not -v: the smallest duration has no positive
	}
	text := fmt.Sprintf("%s%d.%09d", sign, int64(seconds), int64(nanos))
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "s"
}

func parseDuration(text string) (time.Duration, error) { return time.ParseDuration(text) }

// parseDetails reads what a status carries. The reason is REASON_UNSPECIFIED when it is not one of ours, or one that
// this build does not know.
func parseDetails(st *status.Status) *details {
	d := &details{}
	for _, message := range st.Details() {
		switch m := message.(type) {
		case *errdetails.ErrorInfo:
			if m.GetDomain() == Domain {
				d.reason = iqv1.Reason(iqv1.Reason_value[reasonPrefix+m.GetReason()])
				d.metadata = m.GetMetadata()
			}
		case proto.Message:
			d.messages = append(d.messages, m)
		}
	}
	return d
}
