package gateway

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/query"
)

// document is the OpenAPI document as it is served. A test compares it with describe.
//
//go:embed openapi.json
var document []byte

// schema is a piece of an OpenAPI document.
type schema map[string]any

func pattern(p string) schema { return schema{"type": "string", "pattern": p} }

func oneOf(values ...string) schema { return schema{"type": "string", "enum": values} }

func numberTo(most int64) schema {
	bits := "int64"
	if most < 1<<31 {
		bits = "int32"
	}
	return schema{"type": "integer", "format": bits, "minimum": 0, "maximum": most}
}

// statuses are the answers besides 200, and when they are given.
var statuses = []struct {
	code int
	doc  string
	only func(rt *route) bool // nil for every route
}{
	{http.StatusNoContent, "Bytes were asked for, and the key is not there.", func(rt *route) bool { return rt.raw }},
	{http.StatusBadRequest, "The request is wrong (INVALID): each bad parameter, with its value.", nil},
	{http.StatusUnauthorized, "No credentials, or such as are not accepted (UNAUTHENTICATED).", nil},
	{http.StatusForbidden, "The caller may not do this (PERMISSION_DENIED).", nil},
	{http.StatusNotFound, "There is no such store (STORE_UNKNOWN), or no such path.", nil},
	{http.StatusMethodNotAllowed, "The path has other methods.", nil},
	{http.StatusRequestTimeout, "The body did not arrive in time.", func(rt *route) bool { return rt.body != nil }},
	{http.StatusConflict, "The partition count of the store's topic has changed (PARTITIONS_CHANGED).", (*route).isOfStore},
	{http.StatusGone, "The page token or position cannot be gone on from (PAGE_LOST): begin anew.", func(rt *route) bool { return rt.content != "" }},
	{http.StatusPreconditionFailed, "Replicas live, and none is within the policy (STALE, POSITION_NOT_REACHED): the lags of each.", (*route).isOfStore},
	{http.StatusRequestEntityTooLarge, "The body is too large.", func(rt *route) bool { return rt.body != nil }},
	{http.StatusUnsupportedMediaType, "The body is not JSON.", func(rt *route) bool { return rt.body != nil }},
	{http.StatusTooManyRequests, "A bound of the server is reached (OVERLOADED).", nil},
	{http.StatusInternalServerError, "A fault of the server.", nil},
	{http.StatusServiceUnavailable, "Nobody can answer now (NOT_READY, NO_ACTIVE, NO_REPLICA, NOT_HOSTED, CLOSING, CORRUPT).", nil},
	{http.StatusGatewayTimeout, "The timeout has passed.", nil},
}

func (rt *route) isOfStore() bool { return strings.HasPrefix(rt.path, "/v1/stores/{store}") }

// describe is the OpenAPI document.
func describe() ([]byte, error) {
	components := schema{
		"Status": schema{
			"type": "object", "description": "google.rpc.Status: a code of gRPC, a text, and details. ErrorInfo has the reason (domain iqgate) and its numbers, " +
				"ReplicaRefusals the replicas with their lags, BadRequest the fields, RetryInfo when to try again.",
			"required": []string{"code", "message"},
			"properties": schema{
				"code": schema{"type": "integer", "format": "int32"}, "message": schema{"type": "string"},
				"details": schema{"type": "array", "items": schema{"type": "object", "required": []string{"@type"}, "properties": schema{"@type": schema{"type": "string"}}}},
			},
		},
	}
	components["Event"] = schema{
		"type": "object", "description": "A server-sent event. Its data is the JSON of Read, RowAnswer (entry, removed), CurrentAnswer, EventPositions (end) or Status (error).",
		"properties": schema{
			"id": schema{"type": "string", "pattern": positionsPattern}, "retry": schema{"type": "integer"}, "data": schema{"type": "string"},
			"event": oneOf(eventRead, eventEntry, eventRemoved, eventCurrent, eventEnd, eventError),
		},
	}
	t := types{components}
	for _, stream := range []any{rowAnswer{}, endAnswer{}, failureAnswer{}, currentAnswer{}, eventPositions{}} {
		t.of(reflect.TypeOf(stream))
	}
	paths := map[string]schema{}
	for i := range routes {
		rt := &routes[i]
		if paths[rt.path] == nil {
			paths[rt.path] = schema{}
		}
		paths[rt.path][strings.ToLower(rt.method)] = rt.describe(t)
	}
	return json.MarshalIndent(schema{
		"openapi": "3.0.3",
		"info": schema{
			"title": "iqgate", "version": "1",
			"description": "Reads of the state of an application, each answered by the best copy within the staleness that it asks for.",
			"license":     schema{"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
		},
		"paths": paths,
		"components": schema{
			"schemas":         components,
			"securitySchemes": schema{"bearer": schema{"type": "http", "scheme": "bearer", "description": "A JWT, where the router's rules accept tokens. A client certificate is the other way."}},
		},
		"security": []schema{{}, {"bearer": []string{}}},
	}, "", "  ")
}

func (rt *route) describe(t types) schema {
	op := schema{"operationId": rt.id, "description": rt.doc, "responses": schema{}}
	var list []schema
	for _, p := range rt.params {
		d := schema{"name": p.name, "in": p.in, "description": p.doc, "schema": p.schema}
		if p.list && p.in == inQuery {
			d["schema"], d["style"], d["explode"] = schema{"type": "array", "items": p.schema, "maxItems": maxItems}, "form", true
		}
		if p.in == inPath {
			d["required"] = true
		}
		list = append(list, d)
	}
	op["parameters"] = list
	if rt.body != nil {
		op["requestBody"] = schema{"required": true, "content": schema{mediaJSON: schema{"schema": t.of(reflect.TypeOf(rt.body))}}}
	}
	responses := schema{"200": rt.describeAnswer(t)}
	for _, s := range statuses {
		if s.only != nil && !s.only(rt) {
			continue
		}
		r := schema{"description": s.doc}
		if s.code >= http.StatusBadRequest {
			r["content"] = schema{mediaJSON: schema{"schema": reference("Status")}}
		}
		responses[strconv.Itoa(s.code)] = r
	}
	op["responses"] = responses
	return op
}

func (rt *route) describeAnswer(t types) schema {
	if rt.content != "" {
		part := schema{"type": "string"} // lines of JSON
		if rt.content == mediaEvents {
			part = reference("Event")
		}
		return schema{"description": "A stream.", "content": schema{rt.content: schema{"schema": part, "example": rt.example}}}
	}
	content := schema{mediaJSON: schema{"schema": t.of(reflect.TypeOf(rt.answer))}}
	if !rt.raw {
		return schema{"description": "The answer.", "content": content}
	}
	content[mediaBytes] = schema{"schema": schema{"type": "string", "format": "binary"}}
	headers := schema{}
	for name, doc := range map[string]string{
		headerFound: "true or false", headerNode: "the node that has answered", headerRole: "its replica's role", headerState: "its replica's state",
		headerPartition: "the store partition", headerPosition: "the changelog position of the read", headerOffsetLag: "changelog offsets behind, where known",
		headerTimeLag: "bound of the staleness in milliseconds, where known", headerTimestamp: "record timestamp of the value",
	} {
		headers[name] = schema{"description": doc, "schema": schema{"type": "string"}}
	}
	return schema{"description": "The answer.", "content": content, "headers": headers}
}

func reference(name string) schema { return schema{"$ref": "#/components/schemas/" + name} }

// types makes schemas of Go types. Those of structs go into it by name.
type types struct{ components schema }

// of is the schema of a type as package encoding/json writes it.
func (t types) of(typ reflect.Type) schema {
	switch typ.Kind() { //nolint:exhaustive // shapes have no others
	case reflect.Pointer:
		s := t.of(typ.Elem())
		if _, isRef := s["$ref"]; isRef {
			return schema{"nullable": true, "allOf": []schema{s}}
		}
		s["nullable"] = true
		return s
	case reflect.Struct:
		name := strings.ToUpper(typ.Name()[:1]) + typ.Name()[1:]
		if _, there := t.components[name]; !there {
			t.components[name] = schema{} // a type within itself refers to it
			t.components[name] = t.object(typ)
		}
		return reference(name)
	case reflect.Slice:
		if typ == reflect.TypeFor[json.RawMessage]() {
			return schema{}
		}
		return schema{"type": "array", "items": t.of(typ.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": t.of(typ.Elem())}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return schema{"type": "integer", "format": "int64"}
	case reflect.Int32:
		return schema{"type": "integer", "format": "int32"}
	case reflect.Float64:
		return schema{"type": "number", "format": "double"}
	}
	return schema{} // any JSON
}

func (t types) object(typ reflect.Type) schema {
	properties := schema{}
	required := []string{}
	for _, f := range reflect.VisibleFields(typ) {
		if f.Anonymous { // its fields come by themselves
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		s := t.of(f.Type)
		if ref := f.Tag.Get("ref"); ref != "" {
			s = reference(ref)
		}
		if doc := f.Tag.Get("doc"); doc != "" {
			if _, isRef := s["$ref"]; isRef {
				s = schema{"allOf": []schema{s}}
			}
			s["description"] = doc
		}
		if values := f.Tag.Get("enum"); values != "" {
			s["enum"] = strings.Split(values, ",")
		}
		if properties[name] = s; options != "omitempty" {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	o := schema{"type": "object", "properties": properties}
	if len(required) > 0 {
		o["required"] = required
	}
	if typ == reflect.TypeFor[mgetBody]() {
		o["additionalProperties"] = false
		keys, _ := properties["keys"].(schema)
		keys["maxItems"], keys["items"] = query.MaxKeys, keyItems()
	}
	return o
}

// keyItems is a key in a body.
func keyItems() schema {
	return schema{"description": "as the format of keys (" + strings.Join(shape.FormatNames(), ", ") + ") writes it"}
}
