package router

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/routing"
)

const (
	// maxTroubled and maxSampled bound the reads that a journal keeps, of each kind.
	maxTroubled, maxSampled = 128, 32
	// sampleEvery is the least time between two samples.
	sampleEvery = time.Second
	// maxJournalText bounds each text of a read that is kept, in bytes: a caller may ask for a store of any name.
	maxJournalText = 1 << 10
)

// RecentRead is a lookup of one key as it ended. Its key is not kept.
type RecentRead struct {
	// Sequence grows with each read that is kept, from 1.
	Sequence int64
	// Began is when it came, and Took its whole time, its wait too.
	Began time.Time
	Took  time.Duration
	Store string
	// Partition is routing.NoPartition when none was found out, and Policy what it asked for, completed.
	Partition int32
	Policy    routing.Policy
	// Node answered, in Role, and had the key when Found; it is empty when nobody did. TimeLag and OffsetLag are how far it was
	// behind, metadata.LagUnknown where it did not say.
	Node      metadata.NodeID
	Role      metadata.Role
	Found     bool
	TimeLag   time.Duration
	OffsetLag int64
	// Reason and Message say why nobody answered: the reason's name, or that of the code where there is none. Both are empty when
	// somebody did, or the key is in no partition.
	Reason, Message string
	// Attempts are those who were asked and did not answer, in order.
	Attempts []*iqv1.Attempt
	// Sampled says that it was kept to stand for others.
	Sampled bool
}

// served is who answered a read.
type served struct {
	node      metadata.NodeID
	partition int32
	role      metadata.Role
	found     bool
	timeLag   time.Duration
	offsetLag int64
}

// journal keeps the newest reads that were refused, failed or failed over, and now and then one of the others. The zero value is
// empty.
type journal struct {
	epoch   atomic.Pointer[time.Time] // of the first read, by which sampled counts
	sampled atomic.Int64              // when the newest sample was taken

	mu struct {
		sync.Mutex
		last     int64        // sequence
		troubled []RecentRead // the oldest first
		samples  []RecentRead
	}
}

// note looks at a read that has ended. One without trouble costs a look at the time that it began at, which is known.
func (j *journal) note(rd *read, err error) {
	troubled := err != nil || len(rd.attempts) > 0
	if !troubled && !j.wants(rd.began) {
		return
	}
	r := RecentRead{
		Began: rd.began, Took: time.Since(rd.began), Store: cut(rd.request.Store), Partition: rd.served.partition, Policy: rd.policy,
		Attempts: rd.attempts, Sampled: !troubled,
	}
	if err == nil {
		s := &rd.served
		r.Node, r.Role, r.Found, r.TimeLag, r.OffsetLag = s.node, s.role, s.found, s.timeLag, s.offsetLag
	} else {
		r.TimeLag, r.OffsetLag = metadata.LagUnknown, metadata.LagUnknown
		r.Reason, r.Message = wordsOf(err)
		r.Message = cut(r.Message)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.last++
	r.Sequence = j.mu.last
	if troubled {
		j.mu.troubled = push(j.mu.troubled, r, maxTroubled)
	} else {
		j.mu.samples = push(j.mu.samples, r, maxSampled)
	}
}

// wants says whether a read that began at began is to be kept as a sample. Of many at once one is.
func (j *journal) wants(began time.Time) bool {
	epoch := j.epoch.Load()
	if epoch == nil {
		first := began // a copy here alone: began itself would be on the heap for every read
		return j.epoch.CompareAndSwap(nil, &first)
	}
	now, last := int64(began.Sub(*epoch)), j.sampled.Load()
	return now-last >= int64(sampleEvery) && j.sampled.CompareAndSwap(last, now)
}

// push appends and lets the oldest go.
func push(list []RecentRead, r RecentRead, most int) []RecentRead {
	if len(list) == most {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, r)
}

// cut keeps a text as far as it fits.
func cut(text string) string {
	if len(text) <= maxJournalText {
		return text
	}
	return strings.ToValidUTF8(text[:maxJournalText], "") + "…"
}

// wordsOf is why a read failed, without anything of its key: an error about a field may have the key in it.
func wordsOf(err error) (reason, message string) {
	code := iqerr.ReasonOf(err)
	st := status.Convert(iqerr.Status(err))
	switch code { //nolint:exhaustive // all others speak of replicas
	case iqv1.Reason_REASON_UNSPECIFIED:
		return st.Code().String(), st.Message()
	case iqv1.Reason_REASON_INVALID:
		return iqerr.Name(code), "the request is wrong"
	}
	_, headline := iqerr.RefusalsOf(err)
	return iqerr.Name(code), headline
}

// reads are those that are kept, the oldest first. The list is the caller's, but for the attempts.
func (j *journal) reads() []RecentRead {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := slices.Concat(j.mu.troubled, j.mu.samples)
	slices.SortFunc(list, func(a, b RecentRead) int { return int(a.Sequence - b.Sequence) })
	return list
}
