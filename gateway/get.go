package gateway

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// getAnswer is the answer of get.
type getAnswer struct {
	Store         string            `json:"store"`
	Key           any               `json:"key" doc:"as key_format, or the store's key serde, writes it"`
	Found         bool              `json:"found" doc:"false for a key that the store does not have, which is no error"`
	Value         any               `json:"value" doc:"as value_format, or the store's value serde, writes it: numbers as numbers, JSON as it is, all else as text"`
	ValueFormat   string            `json:"value_format" doc:"the format that value is in: bytes where its own format cannot read it"`
	Timestamp     *int64            `json:"timestamp_ms" doc:"record timestamp of the value, milliseconds since the epoch"`
	ValidUntil    *int64            `json:"valid_until_ms,omitempty" doc:"of a version that was superseded: when it ended, exclusive"`
	Served        *shape.Replica    `json:"served" doc:"who answered, and how far behind at the moment of the read; null for a key that is in no partition"`
	InputPosition []shape.Offset    `json:"input_position" doc:"per input partition, the offset below which every record's effect is in the value read"`
	Attempts      []shape.Attempt   `json:"attempts" doc:"replicas that were asked before and did not answer"`
	Candidates    []shape.Candidate `json:"candidates,omitempty" doc:"with explain: each replica, and why it was chosen or refused"`
}

// Headers that tell of the one replica that has answered.
const (
	headerFound     = "Iqgate-Found"
	headerNode      = "Iqgate-Node"
	headerRole      = "Iqgate-Role"
	headerState     = "Iqgate-State"
	headerPartition = "Iqgate-Partition"
	headerPosition  = "Iqgate-Position"
	headerOffsetLag = "Iqgate-Offset-Lag"
	headerTimeLag   = "Iqgate-Time-Lag-Ms"
	headerTimestamp = "Iqgate-Timestamp-Ms"
)

// get looks one key up.
func (c *call) get() error {
	f, err := c.formats()
	if err != nil {
		return err
	}
	key, err := f.parseKey("key", c.key)
	if err != nil {
		return err
	}
	m := &iqv1.GetRequest{
		Store: c.store, Key: key, Policy: c.policy, Explain: c.explain, WindowStartMs: c.windowStart, SessionEndMs: c.sessionEnd, AsOfMs: c.asOf,
	}
	if len(c.partitions) > 0 {
		m.Partition = &c.partitions[0]
	}
	resp, err := c.query.Get(c, m)
	if err != nil {
		return err
	}
	c.tellServed(resp)
	if wantsBytes(c.r) {
		return c.replyBytes(resp)
	}
	a := getAnswer{
		Store: c.store, Found: resp.GetFound(), ValueFormat: f.value.Name(), Served: shape.ReplicaOf(resp.GetServed()),
		InputPosition: shape.PositionOf(resp.GetInputPosition()), Attempts: shape.AttemptsOf(resp.GetAttempts()), ValidUntil: resp.ValidUntilMs,
	}
	a.Key, _ = f.key.JSON(key)
	if resp.GetFound() {
		a.Value, a.ValueFormat = f.value.JSON(resp.GetValue())
		a.Timestamp = &resp.TimestampMs
	}
	if resp.GetDecision() != nil {
		a.Candidates = shape.CandidatesOf(resp.GetDecision().GetCandidates())
	}
	return c.reply(a)
}

// tellServed says in headers what the answer says in its body.
func (c *call) tellServed(resp *iqv1.GetResponse) {
	h := c.w.Header()
	h.Set(headerFound, strconv.FormatBool(resp.GetFound()))
	if resp.GetFound() {
		h.Set(headerTimestamp, strconv.FormatInt(resp.GetTimestampMs(), 10))
	}
	s := resp.GetServed()
	if s == nil {
		return
	}
	h.Set(headerNode, s.GetNode())
	h.Set(headerRole, iqerr.RoleName(s.GetRole()))
	h.Set(headerState, iqerr.StateName(s.GetState()))
	h.Set(headerPartition, strconv.Itoa(int(s.GetPartition())))
	h.Set(headerPosition, strconv.FormatInt(s.GetPosition(), 10))
	if s.OffsetLag != nil {
		h.Set(headerOffsetLag, strconv.FormatInt(s.GetOffsetLag(), 10))
	}
	if ms := shape.Millis(s.GetTimeLag()); ms != nil {
		h.Set(headerTimeLag, strconv.FormatFloat(*ms, 'f', -1, 64))
	}
}

// wantsBytes says whether the first media type that the caller accepts is that of bytes.
func wantsBytes(r *http.Request) bool {
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	media, _, err := mime.ParseMediaType(first)
	return err == nil && media == mediaBytes
}

func (c *call) replyBytes(resp *iqv1.GetResponse) error {
	if !resp.GetFound() {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	c.w.Header().Set("Content-Type", mediaBytes)
	c.w.Header().Set("Content-Length", strconv.Itoa(len(resp.GetValue())))
	_, _ = c.w.Write(resp.GetValue()) // who has gone needs no answer
	return nil
}
