package gateway

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// readyPause is the time between two looks for a store whose read may wait, while no store is known.
const readyPause = 100 * time.Millisecond

// formats are how a store's keys and values are written.
type formats struct {
	info       *iqv1.StoreInfo
	key, value shape.Format
	keyErr     error // why keys cannot be read
}

// formats finds them: those of the parameters, else those that the store says it has. A store may have a format of its
// application's own, which only its code can read: its values are shown as bytes, and its keys need a key_format.
func (c *call) formats() (formats, error) {
	info, err := c.find()
	f := formats{info: info}
	if err != nil {
		return f, err
	}
	name := c.keyFormat
	if name == "" {
		name = info.GetKeySerde()
	}
	if f.key, err = shape.FormatByName(name); err != nil {
		f.key = shape.Bytes()
		f.keyErr = iqerr.Invalid("key_format", nil, "must be given, such as bytes: the store's own format "+strconv.Quote(name)+" is not known here")
	}
	if name = c.valueFormat; name == "" {
		name = info.GetValueSerde()
	}
	if f.value, err = shape.FormatByName(name); err != nil {
		f.value = shape.Bytes()
	}
	return f, nil
}

// parseKey reads a key; name is the parameter that it stands in.
func (f formats) parseKey(name, text string) ([]byte, error) {
	if f.keyErr != nil {
		return nil, f.keyErr
	}
	key, err := f.key.Parse(text)
	if err != nil {
		return nil, unreadable(name, text, err)
	}
	return key, nil
}

// unreadable is the error of a text that its format cannot read. Most formats repeat the text, which the error has already.
func unreadable(name, text string, err error) error {
	return iqerr.Invalid(name, text, strings.TrimPrefix(err.Error(), strconv.Quote(text)+" "))
}

// parsePrefix takes bytes: the beginning of a key is seldom a key of its format.
func parsePrefix(text string) ([]byte, error) {
	prefix, err := shape.Bytes().Parse(text)
	if err != nil {
		return nil, unreadable("prefix", text, err)
	}
	return prefix, nil
}

// find finds the store of the request. While the server knows no store yet it looks again, as long as the read may wait, and
// takes that time off the wait.
func (c *call) find() (*iqv1.StoreInfo, error) {
	until := c.now.Add(c.wait())
	for {
		info, err := c.lookFor()
		left := time.Until(until)
		if iqerr.ReasonOf(err) != iqv1.Reason_REASON_NOT_READY || left <= 0 {
			if c.policy.GetWait() != nil {
				c.policy.Wait = durationpb.New(max(0, left))
			}
			return info, err
		}
		pause := time.NewTimer(min(readyPause, left))
		select {
		case <-pause.C:
		case <-c.Done():
			pause.Stop()
			return nil, err
		}
	}
}

// lookFor looks for the store once. Of one that is not there the server itself says what there is to say to this caller: a
// lookup of it fails as every read of it would.
func (c *call) lookFor() (*iqv1.StoreInfo, error) {
	all, err := c.metadata.ListStores(c, &iqv1.ListStoresRequest{})
	if err != nil {
		return nil, err
	}
	for _, s := range all.GetStores() {
		if s.GetName() == c.store {
			return s, nil
		}
	}
	if _, err = c.query.Get(c, &iqv1.GetRequest{Store: c.store, Key: []byte(c.key)}); err == nil || errors.Is(iqerr.FromStatus(err), iqerr.ErrInvalid) {
		return nil, &iqerr.NotReadyError{Waiting: "a node that tells of store " + strconv.Quote(c.store), RetryAfter: readyPause} // it came in between
	}
	return nil, err
}
