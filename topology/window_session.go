package topology

import "bytes"

// sessionAggregator keeps an aggregate for each key and session, and forwards what changed, with the session's end as
// timestamp. Sessions that a record joins are removed and forwarded with a nil value. A session [start, end] is closed when
// end + gap + grace < stream time (Kafka Streams' KStreamSessionWindowAggregate); a record that would only touch a
// closed one, or make one, is late.
type sessionAggregator struct {
	windowKeeper

	retention int64
}

// Process implements Processor.
func (a *sessionAggregator) Process(ctx Context, r Record) error {
	if a.skip(ctx, r) {
		return nil
	}
	store := ctx.SessionStore(a.store)
	stored := store.StreamTime()
	closed := a.closed(ctx, stored, r) - a.size
	var joined []SessionEntry
	start, end := r.Timestamp, r.Timestamp
	for e, err := range store.FindSessions(r.Key, r.Timestamp-a.size, r.Timestamp+a.size) {
		if err != nil {
			return err
		}
		joined = append(joined, e)
		start, end = min(start, e.Start), max(end, e.End)
	}
	if end < closed || end <= stored-a.retention {
		ctx.Skip(SkipLate)
		return nil
	}
	next, err := a.join(joined, r)
	if err != nil {
		return err
	}
	for _, e := range joined {
		if e.Start == start && e.End == end { // written anew
			if bytes.Equal(e.Value, next) {
				return nil
			}
			continue
		}
		if err := store.Remove(r.Key, e.Start, e.End, r.Timestamp); err != nil {
			return err
		}
		ctx.Forward(Record{Key: SessionKey(r.Key, e.Start, e.End), Timestamp: e.End})
	}
	if err := store.Put(r.Key, next, start, end, r.Timestamp); err != nil {
		return err
	}
	ctx.Forward(Record{Key: SessionKey(r.Key, start, end), Value: next, Timestamp: end})
	return nil
}

// join returns the value of the session that the record makes of those it touches, which are in ascending order.
func (a *sessionAggregator) join(joined []SessionEntry, r Record) ([]byte, error) {
	var old state
	for i, e := range joined {
		value := present(e.Value, 0, true).value
		if i == 0 {
			old.value = value
			continue
		}
		merged, err := a.fold.merge(r.Key, old.value, value)
		if err != nil {
			return nil, err
		}
		old.value = merged
	}
	if n := len(joined); n > 0 {
		old.timestamp = a.fold.sessionTime(joined[0].Start, joined[n-1].End)
	}
	next, err := a.fold.add(old, r)
	return next.value, err
}
