package gateway

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/iqgate/iqgate/gateway/shape"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// route is one operation at one path.
type route struct {
	method string
	path   string // segments in braces are path parameters
	id     string // operationId
	doc    string
	params []param
	// body is the type of the request's JSON body; nil for none.
	body any
	// answer is the type of the JSON answer; nil for a stream.
	answer any
	// content is the media type of the answer, JSON where there is none.
	content string
	// example is an example of a stream.
	example string
	// raw says that the answer can be the bytes of a value.
	raw bool
	// serve answers. What it returns before anything is written becomes the answer.
	serve func(c *call) error
}

// call is a request under way.
type call struct {
	context.Context //nolint:containedctx // a call is one
	*Handler
	*request
	route *route
	w     http.ResponseWriter
	r     *http.Request
}

// Media types.
const (
	mediaJSON   = "application/json"
	mediaRows   = "application/x-ndjson"
	mediaEvents = "text/event-stream"
	mediaBytes  = "application/octet-stream"
)

func params(groups ...[]param) []param { return slices.Concat(groups...) }

// routes are all operations. The OpenAPI document is made of them.
var routes = []route{
	{
		method: http.MethodGet, path: "/v1/stores", id: "listStores", doc: "The stores, with their partitions, formats and partitioner.",
		params: []param{timeoutParam}, answer: storesAnswer{}, serve: (*call).stores,
	},
	{
		method: http.MethodGet, path: "/v1/stores/{store}", id: "getStore", doc: "One store.",
		params: []param{storeParam, timeoutParam}, answer: shape.Store{}, serve: (*call).oneStore,
	},
	{
		method: http.MethodGet, path: "/v1/stores/{store}/keys/{key}", id: "get", raw: true,
		doc: "The value of a key, with who served it and how far behind. A key that the store does not have is an answer, with found false. " +
			"With Accept: application/octet-stream the body is the value's bytes, with the facts in headers, or 204 where there is none.",
		params: params([]param{storeParam, keyParam, partitionParam}, []param{
			{
				name: "window_start_ms", in: inQuery, doc: "the start of the window, or of the session: " + timeDoc, schema: pattern(timePattern),
				read: moment(func(r *request) **int64 { return &r.windowStart }),
			},
			{
				name: "session_end_ms", in: inQuery, doc: "the end of the session: " + timeDoc, schema: pattern(timePattern),
				read: moment(func(r *request) **int64 { return &r.sessionEnd }),
			},
			asOfParam,
			{
				name: "explain", in: inQuery, doc: "say why each replica was chosen or refused", schema: schema{"type": "boolean"},
				read: yesNo(func(r *request) *bool { return &r.explain }),
			},
		}, policyParams, []param{keyFormatParam, valueFormatParam, timeoutParam}),
		answer: getAnswer{}, serve: (*call).get,
	},
	{
		method: http.MethodPost, path: "/v1/stores/{store}/mget", id: "mget",
		doc:    "The values of up to 10,000 keys, those of one partition at one position. A key that could not be read has its error in its place.",
		params: params([]param{storeParam, asOfParam}, policyParams, []param{keyFormatParam, valueFormatParam, timeoutParam}),
		body:   mgetBody{}, answer: mgetAnswer{}, serve: (*call).mget,
	},
	{
		method: http.MethodGet, path: "/v1/stores/{store}/scan", id: "scan",
		doc: "The entries of a store in the order of their keys' bytes, over all partitions, one JSON object a line. The last line has \"end\", when " +
			"everything that was asked for has come, or \"error\". A body without either is not whole.",
		params: params([]param{storeParam}, selectionParams, []param{
			{name: "reverse", in: inQuery, doc: "turn the order of keys and times round", schema: schema{"type": "boolean"}, read: yesNo(func(r *request) *bool { return &r.reverse })},
			{name: "keys_only", in: inQuery, doc: "leave the values out", schema: schema{"type": "boolean"}, read: yesNo(func(r *request) *bool { return &r.keysOnly })},
			{
				name: "by_partition", in: inQuery, doc: "partition after partition, in place of one order of keys over all", schema: schema{"type": "boolean"},
				read: yesNo(func(r *request) *bool { return &r.byPartition }),
			},
			limitParam,
			{
				name: "fields", in: inQuery, list: true, doc: "only these fields of json values", schema: schema{"type": "string", "pattern": "^[^,]+$"},
				read: func(r *request, text string) error {
					r.fields = append(r.fields, text)
					return nil
				},
			},
			pageTokenParam,
		}, policyParams, []param{keyFormatParam, valueFormatParam, timeoutParam}),
		content: mediaRows, example: rowsExample, serve: (*call).scan,
	},
	{
		method: http.MethodGet, path: "/v1/stores/{store}/count", id: "count", doc: "How many rows a scan would give.",
		params: params([]param{storeParam}, selectionParams, []param{{
			name: "approximate", in: inQuery, doc: "an estimate is good enough, where whole partitions of a key-value store are asked for",
			schema: schema{"type": "boolean"}, read: yesNo(func(r *request) *bool { return &r.approximate }),
		}}, policyParams, []param{keyFormatParam, timeoutParam}),
		answer: countAnswer{}, serve: (*call).countRows,
	},
	ofKey("windows", "The windows of a key that start between two times, in their order, each with its start and exclusive end; as lines of a scan."),
	ofKey("sessions", "The sessions of a key that overlap the time between two times, each with its start and included end; as lines of a scan."),
	ofKey("versions", "The versions of a key that were valid between two times, deletions too, each with the time from which it was valid and the "+
		"exclusive time until which; the latest has no end. As lines of a scan."),
	{
		method: http.MethodGet, path: "/v1/stores/{store}/watch", id: "watch",
		doc: "What a key, a prefix or a store holds now, and then every committed change, as server-sent events: read (who serves a partition), " +
			"entry, removed, current (all that was there has come), end (of count or timeout) and error. The id of an event is a position to go on " +
			"from: give it as Last-Event-ID or position.",
		params: params([]param{
			storeParam,
			{name: "key", in: inQuery, doc: "only this key", schema: schema{"type": "string"}, read: optionalText(func(r *request) **string { return &r.from })},
			prefixParam, partitionsParam,
			{
				name: "changes_only", in: inQuery, doc: "leave out what is there now", schema: schema{"type": "boolean"},
				read: yesNo(func(r *request) *bool { return &r.changesOnly }),
			},
			{
				name: "position", in: inQuery, list: true, doc: "go on from where another watch ended: PARTITION@POSITION", schema: pattern(positionPattern),
				read: (*request).addPosition,
			},
			{
				name: headerLastEvent, in: inHeader, doc: "the id of the last event of an earlier watch, which wins over position", schema: pattern(positionsPattern),
				read: (*request).setLastEvent,
			},
			{
				name: "count", in: inQuery, doc: "end after so many entries and removals; 0 is never", schema: numberTo(1<<63 - 1),
				read: number(func(r *request) *int64 { return &r.count }),
			},
		}, policyParams, []param{keyFormatParam, valueFormatParam, timeoutParam}),
		content: mediaEvents, example: eventsExample, serve: (*call).watch,
	},
	{
		method: http.MethodGet, path: "/v1/stores/{store}/keys/{key}/metadata", id: "keyMetadata",
		doc: "The partition or partitions of a key, with their active and standbys.",
		params: []param{storeParam, keyParam, {
			name: "partitioner", in: inQuery, doc: "find the partitions by this partitioner (default: the store's)", schema: schema{"type": "string"},
			read: plain(func(r *request) *string { return &r.partitioner }),
		}, keyFormatParam, timeoutParam},
		answer: keyAnswer{}, serve: (*call).keyMetadata,
	},
	{
		method: http.MethodGet, path: "/v1/stores/{store}/keys/{key}/explain", id: "explain",
		doc:    "Which replicas a get would be sent to, in order, and why each was chosen or refused.",
		params: params([]param{storeParam, keyParam, partitionParam}, policyParams, []param{keyFormatParam, timeoutParam}),
		answer: explainAnswer{}, serve: (*call).explanation,
	},
	{
		method: http.MethodGet, path: "/v1/nodes", id: "listNodes", doc: "The nodes with the store partitions that each holds.",
		params: []param{storeFilterParam, {
			name: "standbys_only", in: inQuery, doc: "only nodes that hold the store otherwise than as its active; needs store", schema: schema{"type": "boolean"},
			read: yesNo(func(r *request) *bool { return &r.standbysOnly }),
		}, timeoutParam},
		answer: nodesAnswer{}, serve: (*call).nodes,
	},
	{
		method: http.MethodGet, path: "/v1/lag", id: "lag", doc: "Every replica that is alive, and how far behind it is.",
		params: []param{storeFilterParam, timeoutParam}, answer: lagAnswer{}, serve: (*call).lag,
	},
}

// kindOf is the kind of store that a path of a key's entries is for.
var kindOf = map[string]string{"windows": "window", "sessions": "session", "versions": "versioned"}

// ofKey is a route for all that a key has in time.
func ofKey(what, doc string) route {
	return route{
		method: http.MethodGet, path: "/v1/stores/{store}/keys/{key}/" + what, id: what, doc: doc,
		params: params([]param{storeParam, keyParam, partitionParam}, betweenParams, []param{
			{name: "reverse", in: inQuery, doc: "the latest first", schema: schema{"type": "boolean"}, read: yesNo(func(r *request) *bool { return &r.reverse })},
			limitParam, pageTokenParam,
		}, policyParams, []param{keyFormatParam, valueFormatParam, timeoutParam}),
		content: mediaRows, example: rowsExample, serve: (*call).entriesOfKey,
	}
}

// find is the route of a request and its path parameters. Where there is none, allowed are the methods that the path has.
func find(method, escapedPath string) (rt *route, vars map[string]string, allowed []string) {
	segments := strings.Split(escapedPath, "/")
	for i := range routes {
		vars, ok := match(strings.Split(routes[i].path, "/"), segments)
		if !ok {
			continue
		}
		if routes[i].method == method || method == http.MethodHead && routes[i].method == http.MethodGet && routes[i].content == "" {
			return &routes[i], vars, nil
		}
		allowed = append(allowed, routes[i].method)
		if routes[i].method == http.MethodGet && routes[i].content == "" {
			allowed = append(allowed, http.MethodHead)
		}
	}
	return nil, nil, allowed
}

// match compares a path with that of a route. A segment is decoded alone, so that a key may have slashes, dots, or nothing.
func match(pattern, segments []string) (map[string]string, bool) {
	if len(pattern) != len(segments) {
		return nil, false
	}
	vars := map[string]string{}
	for i, want := range pattern {
		name, isVar := strings.CutPrefix(want, "{")
		got, err := url.PathUnescape(segments[i])
		if err != nil || !isVar && want != segments[i] {
			return nil, false
		}
		if isVar {
			vars[strings.TrimSuffix(name, "}")] = got
		}
	}
	return vars, true
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// selection is what the parameters select, with the keys as f writes them.
func (c *call) selection(f formats) (*iqv1.Selection, error) {
	s := &iqv1.Selection{Store: c.store, Filter: c.filter, Times: c.times, AsOfMs: c.asOf, Partitions: c.partitions}
	var errs []error
	bound := func(name string, text *string) []byte {
		if text == nil {
			return nil
		}
		key, err := f.parseKey(name, *text)
		errs = append(errs, err)
		return notNil(key)
	}
	r := &iqv1.KeyRange{From: bound("from", c.from), To: bound("to", c.to)}
	if c.after != nil {
		r.From, r.FromExclusive = bound("from_exclusive", c.after), true
	}
	if c.before != nil {
		r.To, r.ToExclusive = bound("to_exclusive", c.before), true
	}
	if r.From != nil || r.To != nil {
		s.Keys = &iqv1.Selection_Range{Range: r}
	}
	if c.prefix != nil {
		prefix, err := parsePrefix(*c.prefix)
		errs = append(errs, err)
		s.Keys = &iqv1.Selection_Prefix{Prefix: prefix}
	}
	return s, errors.Join(errs...)
}

// notNil keeps a bound that is empty from being none.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
