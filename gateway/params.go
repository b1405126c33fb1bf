package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
)

// Where a parameter stands.
const (
	inPath   = "path"
	inQuery  = "query"
	inHeader = "header"
)

// param is one parameter of a route: how it is read, and what the OpenAPI document says of it.
type param struct {
	name string
	in   string
	// list takes several items, with commas or as several parameters, one call of read for each.
	list   bool
	doc    string
	schema schema
	read   func(r *request, text string) error // the error says what is wrong, without name and value
}

// texts of schemas.
const (
	durationPattern  = `^(0|[0-9]{1,6}(ms|s|m|h))$`
	positivePattern  = `^[1-9][0-9]{0,5}(ms|s|m|h)$`
	timePattern      = `^(-?[0-9]{1,15}|-?[0-9]{1,6}(ms|s|m|h)|[0-9]{4}-[01][0-9]-[0-3][0-9]T.*)$`
	timesPattern     = `^[^.]*\.\..*$`
	atLeastPattern   = `^[a-zA-Z0-9._-]+/[0-9]{1,9}@[0-9]{1,18}$`
	positionPattern  = `^[0-9]{1,9}@[0-9]{1,18}$`
	positionsPattern = `^[0-9]{1,9}@[0-9]{1,18}(,[0-9]{1,9}@[0-9]{1,18})*$`
	policyPattern    = `^(strong|active|any|max_staleness=(0|[0-9]{1,6}(ms|s|m|h))|max_offset_lag=[0-9]{1,18})$`
	preferPattern    = `^(active|least_loaded|nearest=.+)$`
	pagePattern      = `^[A-Za-z0-9_-]*$`
)

// timeDoc says how times are written.
const timeDoc = "RFC 3339, milliseconds since the epoch, or how long ago such as -5m"

func plain(set func(r *request) *string) func(*request, string) error {
	return func(r *request, text string) error {
		*set(r) = text
		return nil
	}
}

func optionalText(set func(r *request) **string) func(*request, string) error {
	return func(r *request, text string) error {
		*set(r) = &text
		return nil
	}
}

func yesNo(set func(r *request) *bool) func(*request, string) error {
	return func(r *request, text string) (err error) {
		*set(r), err = parseBool(text)
		return err
	}
}

func number(set func(r *request) *int64) func(*request, string) error {
	return func(r *request, text string) (err error) {
		*set(r), err = parseCount(text)
		return err
	}
}

func moment(set func(r *request) **int64) func(*request, string) error {
	return func(r *request, text string) error {
		if text == "" {
			return errors.New("must be a time: " + timeDoc)
		}
		return r.setTime(text, set(r))
	}
}

func format(set func(r *request) *string) func(*request, string) error {
	return func(r *request, text string) error {
		*set(r) = text
		_, err := shape.FormatByName(text)
		return err
	}
}

// The parameters that routes share.
var (
	storeParam = param{
		name: "store", in: inPath, doc: "the store's name", schema: schema{"type": "string", "minLength": 1},
		read: func(r *request, text string) error {
			if r.store = text; text == "" {
				return errors.New("must be a store's name")
			}
			return nil
		},
	}
	keyParam = param{
		name: "key", in: inPath, doc: "the key as its format writes it, percent-encoded", schema: schema{"type": "string"},
		read: plain(func(r *request) *string { return &r.key }),
	}
	timeoutParam = param{
		name: "timeout", in: inQuery, doc: "how long the answer may take, its wait included (default: the server's, and none for streams)",
		schema: pattern(positivePattern), read: func(r *request, text string) (err error) {
			if r.timeout, err = parseDuration(text); err == nil && r.timeout == 0 {
				err = errors.New("must be more than 0s")
			}
			return err
		},
	}
	keyFormatParam = param{
		name: "key_format", in: inQuery, doc: "how keys are written, in and out (default: the store's key serde)",
		schema: oneOf(shape.FormatNames()...), read: format(func(r *request) *string { return &r.keyFormat }),
	}
	valueFormatParam = param{
		name: "value_format", in: inQuery, doc: "how values are shown (default: the store's value serde)",
		schema: oneOf(shape.FormatNames()...), read: format(func(r *request) *string { return &r.valueFormat }),
	}
	partitionParam = param{
		name: "partition", in: inQuery, doc: "the store partition to read (default: the key's own)", schema: numberTo(1<<31 - 1), read: (*request).addPartition,
	}
	partitionsParam = param{
		name: "partition", in: inQuery, list: true, doc: "only these store partitions (default: all, or the key's own)",
		schema: numberTo(1<<31 - 1), read: (*request).addPartition,
	}
	prefixParam = param{
		name: "prefix", in: inQuery, doc: "only keys whose bytes begin with those of this text; 0x and hexadecimal digits for any bytes",
		schema: schema{"type": "string"}, read: optionalText(func(r *request) **string { return &r.prefix }),
	}
	asOfParam = param{
		name: "as_of", in: inQuery, doc: "of a versioned store, the version that was valid at this time: " + timeDoc,
		schema: pattern(timePattern), read: moment(func(r *request) **int64 { return &r.asOf }),
	}
	storeFilterParam = param{
		name: "store", in: inQuery, doc: "only this store", schema: schema{"type": "string"},
		read: plain(func(r *request) *string { return &r.store }),
	}
	limitParam = param{
		name: "limit", in: inQuery, doc: "end after so many rows; 0 is all of them", schema: numberTo(1<<63 - 1),
		read: number(func(r *request) *int64 { return &r.limit }),
	}
	pageTokenParam = param{
		name: "page_token", in: inQuery, doc: "go on where a scan with the same parameters ended; limit and policy may be others",
		schema: pattern(pagePattern), read: (*request).setPageToken,
	}
)

// policyParams say which replicas may answer.
var policyParams = []param{
	{
		name: "policy", in: inQuery, list: true, doc: "strong, active, any, max_staleness=10s, max_offset_lag=100; all must hold (default: the server's)",
		schema: pattern(policyPattern), read: (*request).setPolicy,
	},
	{name: "max_staleness", in: inQuery, doc: "bound of the time lag, such as 5s", schema: pattern(durationPattern), read: (*request).setMaxStaleness},
	{name: "max_offset_lag", in: inQuery, doc: "bound of the changelog offsets that the answer may be behind", schema: numberTo(1<<63 - 1), read: (*request).setMaxOffsetLag},
	{
		name: "at_least", in: inQuery, list: true, doc: "input position that the answer must cover: TOPIC/PARTITION@OFFSET",
		schema: pattern(atLeastPattern), read: (*request).setAtLeast,
	},
	{
		name: "prefer", in: inQuery, doc: "which replica first, of those within the policy: active, least_loaded, nearest=RACK (default: the server's)",
		schema: pattern(preferPattern), read: (*request).setPrefer,
	},
	{name: "wait", in: inQuery, doc: "how long the server may hold the read until a replica qualifies", schema: pattern(durationPattern), read: (*request).setWait},
	{
		name: "read_uncommitted", in: inQuery, doc: "show the active's writes of the open transaction as well", schema: schema{"type": "boolean"},
		read: (*request).setUncommitted,
	},
}

// selectionParams say which entries of a store are meant.
var selectionParams = []param{
	{
		name: "from", in: inQuery, doc: "first key, included", schema: schema{"type": "string"},
		read: optionalText(func(r *request) **string { return &r.from }),
	},
	{
		name: "from_exclusive", in: inQuery, doc: "key to begin after", schema: schema{"type": "string"},
		read: optionalText(func(r *request) **string { return &r.after }),
	},
	{
		name: "to", in: inQuery, doc: "last key, included", schema: schema{"type": "string"},
		read: optionalText(func(r *request) **string { return &r.to }),
	},
	{
		name: "to_exclusive", in: inQuery, doc: "key to end before", schema: schema{"type": "string"},
		read: optionalText(func(r *request) **string { return &r.before }),
	},
	prefixParam, partitionsParam,
	{
		name: "filter", in: inQuery, doc: "only entries for which this CEL expression over key, value, timestamp_ms and partition is true; for json values",
		schema: schema{"type": "string"}, read: plain(func(r *request) *string { return &r.filter }),
	},
	{
		name: "times", in: inQuery, doc: "only windows that start, sessions that overlap, or versions that were valid in FROM..TO; either may be left out; each " + timeDoc,
		schema: pattern(timesPattern), read: (*request).setTimes,
	},
	{
		name: "since", in: inQuery, doc: "as times, from then until now and later", schema: pattern(timePattern),
		read: moment(func(r *request) **int64 { return &r.rangeOfTimes().FromMs }),
	},
	asOfParam,
}

// betweenParams are the times of the windows, sessions or versions of one key.
var betweenParams = []param{
	{
		name: "from", in: inQuery, doc: "no earlier than this time: " + timeDoc, schema: pattern(timePattern),
		read: moment(func(r *request) **int64 { return &r.rangeOfTimes().FromMs }),
	},
	{
		name: "to", in: inQuery, doc: "no later than this time, which is included", schema: pattern(timePattern),
		read: moment(func(r *request) **int64 { return &r.rangeOfTimes().ToMs }),
	},
}

// apart are parameters of which one request has at most one.
var apart = [][2]string{
	{"from", "from_exclusive"},
	{"to", "to_exclusive"},
	{"prefix", "from"},
	{"prefix", "from_exclusive"},
	{"prefix", "to"},
	{"prefix", "to_exclusive"},
	{"times", "since"},
	{"key", "prefix"},
}

const (
	// maxProblems bounds the bad parameters that an error names.
	maxProblems = 16
	// maxItems bounds the items of a list.
	maxItems = 1000
)

// read reads a request by the parameters of the route. The error holds an *iqerr.InvalidError for each that is bad.
func (rt *route) read(in *request, r *http.Request, vars map[string]string) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return iqerr.Invalid("query", r.URL.RawQuery, "is malformed: "+err.Error())
	}
	var errs []error
	for _, name := range sortedKeys(query) {
		if !slices.ContainsFunc(rt.params, func(p param) bool { return p.in == inQuery && p.name == name }) {
			errs = append(errs, iqerr.Invalid(name, query.Get(name), "is no parameter here; there are "+rt.names()))
		}
	}
	for i := range rt.params {
		p := &rt.params[i]
		var given []string
		switch p.in {
		case inPath:
			given = []string{vars[p.name]}
		case inHeader:
			given = r.Header.Values(p.name)
		default:
			given = query[p.name]
		}
		if errs = append(errs, p.take(in, given)...); len(errs) > maxProblems {
			break
		}
	}
	for _, pair := range apart {
		if query.Has(pair[0]) && query.Has(pair[1]) {
			errs = append(errs, iqerr.Invalid(pair[1], query.Get(pair[1]), "contradicts "+pair[0]+"; give one of them"))
		}
	}
	return errors.Join(errs...)
}

var errNotUTF8 = errors.New("must be UTF-8; bytes have key_format hex and base64")

// take reads a parameter as given, which may be not at all or several times.
func (p *param) take(in *request, given []string) (errs []error) {
	if len(given) > 1 && !p.list {
		return []error{iqerr.Invalid(p.name, strings.Join(given, ","), "is there more than once")}
	}
	count := 0
	for _, value := range given {
		items := []string{value}
		if p.list {
			items = strings.Split(value, ",")
		}
		if count += len(items); count > maxItems {
			return append(errs, iqerr.Invalid(p.name, nil, fmt.Sprintf("has more than %d items", maxItems)))
		}
		for _, item := range items {
			err := errNotUTF8
			if utf8.ValidString(item) {
				err = p.read(in, item)
			}
			if err != nil {
				errs = append(errs, iqerr.Invalid(p.name, item, err.Error()))
			}
		}
	}
	return errs
}

// names are the query parameters that the route has.
func (rt *route) names() string {
	var names []string
	for _, p := range rt.params {
		if p.in == inQuery {
			names = append(names, p.name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
