package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"

	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
)

// mgetBody is the body of mget.
type mgetBody struct {
	Keys []json.RawMessage `json:"keys" doc:"as key_format, or the store's key serde, writes them: numbers as numbers or text, JSON as it is, all else as text"`
}

// mgetAnswer is the answer of mget.
type mgetAnswer struct {
	Store       string       `json:"store"`
	ValueFormat string       `json:"value_format" doc:"the format of values that do not say another"`
	Results     []mgetResult `json:"results" doc:"one for each key, in the order of the request"`
	Failed      int          `json:"failed" doc:"how many keys could not be read"`
	Reads       []shape.Read `json:"reads" doc:"who answered; read of a result is an index into it"`
}

type mgetResult struct {
	Key         any             `json:"key"`
	Found       bool            `json:"found"`
	Value       any             `json:"value"`
	ValueFormat string          `json:"value_format,omitempty" doc:"where it is another than that of the answer"`
	Timestamp   *int64          `json:"timestamp_ms"`
	ValidUntil  *int64          `json:"valid_until_ms,omitempty"`
	Read        *int32          `json:"read" doc:"index into reads; null for a key that could not be read, or is in no partition"`
	Error       json.RawMessage `json:"error,omitempty" ref:"Status" doc:"why the key could not be read"`
}

// mget looks many keys up.
func (c *call) mget() error {
	body, err := c.mgetBody()
	if err != nil {
		return err
	}
	f, err := c.formats()
	if err != nil {
		return err
	}
	if f.keyErr != nil {
		return f.keyErr
	}
	m := &iqv1.MultiGetRequest{Store: c.store, Policy: c.policy, AsOfMs: c.asOf, Keys: make([][]byte, 0, len(body.Keys))}
	var errs []error
	for i, raw := range body.Keys {
		key, err := f.key.ParseJSON(raw)
		if err != nil {
			if errs = append(errs, unreadable(fmt.Sprintf("keys[%d]", i), keyText(raw), err)); len(errs) == maxProblems {
				break
			}
		}
		m.Keys = append(m.Keys, key)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	resp, err := c.query.MultiGet(c, m)
	if err != nil {
		return err
	}
	a := mgetAnswer{Store: c.store, ValueFormat: f.value.Name(), Reads: shape.ReadsOf(resp.GetPartitions()), Results: make([]mgetResult, 0, len(m.GetKeys()))}
	for i, res := range resp.GetResults() {
		r := mgetResult{Found: res.GetFound(), Read: res.Read, ValidUntil: res.ValidUntilMs}
		r.Key, _ = f.key.JSON(m.GetKeys()[i])
		switch {
		case res.GetError() != nil:
			a.Failed++
			r.Error = statusJSON(iqerr.FromKeyError(res.GetError()))
		case res.GetFound():
			r.Timestamp = &res.TimestampMs
			if r.Value, r.ValueFormat = f.value.JSON(res.GetValue()); r.ValueFormat == a.ValueFormat {
				r.ValueFormat = ""
			}
		}
		a.Results = append(a.Results, r)
	}
	return c.reply(a)
}

// keyText is a key of a body as an error shows it: text without its quotes.
func keyText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && raw[0] == '"' {
		return text
	}
	return string(raw)
}

// mgetBody reads the body.
func (c *call) mgetBody() (mgetBody, error) {
	var body mgetBody
	if media, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || media != mediaJSON {
		c.w.Header().Set("Connection", "close") // what comes is not read
		return body, &httpError{http.StatusUnsupportedMediaType, codes.InvalidArgument, "the body must be " + mediaJSON}
	}
	text, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, c.config.MaxBodyBytes))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return body, &httpError{http.StatusRequestEntityTooLarge, codes.InvalidArgument, fmt.Sprintf("the body has more than %d bytes", c.config.MaxBodyBytes)}
	}
	if err != nil {
		return body, &httpError{http.StatusRequestTimeout, codes.DeadlineExceeded, fmt.Sprintf("the body did not arrive within %s", bodyTimeout)}
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{}) // so that the answer may take longer
	if !utf8.Valid(text) {
		return body, iqerr.Invalid("body", nil, errNotUTF8.Error())
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		problem := err.Error()
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			problem = "there is a JSON " + e.Value + " where " + cmp.Or(e.Field, "the object") + " should be"
		}
		return body, iqerr.Invalid("body", nil, "must be an object with a list of keys: "+strings.TrimPrefix(problem, "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return body, iqerr.Invalid("body", nil, "must be one object, and something comes after it")
	}
	if body.Keys == nil {
		return body, iqerr.Invalid("keys", nil, "must be a list of keys")
	}
	if n := len(body.Keys); n > query.MaxKeys {
		return body, iqerr.Invalid("keys", fmt.Sprintf("%d keys", n), fmt.Sprintf("must be at most %d", query.MaxKeys))
	}
	return body, nil
}
