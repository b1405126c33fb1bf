package iqgate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const streamsDoc = "docs/kafka-streams.md"

// kip535 are the methods of KIP-535's text; the lag methods were left open there and named later.
var kip535 = []string{
	"standbyTopicPartitions()", "standbyStateStoreNames()", "allStandbyMetadata()", "allStandbyMetadataForStore(name)",
	"standbyMetadataForKey(name, key, serializer)", "standbyMetadataForKey(name, key, partitioner)", "allLocalStorePartitionLags()",
}

// streams44 are the methods of Kafka Streams 4.4 that tell who holds what, or read it; the names before a bracket.
var streams44 = []string{
	"KafkaStreams.metadataForAllStreamsClients", "KafkaStreams.streamsMetadataForStore", "KafkaStreams.queryMetadataForKey",
	"KafkaStreams.allLocalStorePartitionLags", "KafkaStreams.store", "KafkaStreams.query", "StreamsMetadata.hostInfo",
	"StreamsMetadata.stateStoreNames", "StreamsMetadata.topicPartitions", "StreamsMetadata.standbyTopicPartitions",
	"StreamsMetadata.standbyStateStoreNames", "host", "port", "KeyQueryMetadata.NOT_AVAILABLE", "KeyQueryMetadata.activeHost",
	"KeyQueryMetadata.standbyHosts", "KeyQueryMetadata.partition", "LagInfo.currentOffsetPosition", "LagInfo.endOffsetPosition",
	"LagInfo.offsetLag", "HostInfo.unavailable", "StoreQueryParameters.fromNameAndType", "StoreQueryParameters.withPartition",
	"StoreQueryParameters.enableStaleStores", "StateQueryRequest.withPositionBound", "StateQueryRequest.withAllPartitions",
	"StateQueryRequest.withPartitions", "StateQueryRequest.enableExecutionInfo", "StateQueryRequest.requireActive",
	"StateQueryRequest.withIsolationLevel", "StateQueryResult.getPosition", "PositionBound.at", "PositionBound.unbounded",
	"Position.merge", "StreamPartitioner.partition", "StreamPartitioner.partitions", "FailureReason.NOT_ACTIVE",
	"FailureReason.NOT_UP_TO_BOUND", "FailureReason.NOT_PRESENT", "FailureReason.DOES_NOT_EXIST", "FailureReason.STORE_EXCEPTION",
	"application.server", "num.standby.replicas", "acceptable.recovery.lag", "max.warmup.replicas",
	"probing.rebalance.interval.ms", "rack.aware.assignment.tags", "client.tag.*",
}

var code = regexp.MustCompile("`([^`]+)`")

// rows are the rows of the document's tables, cell by cell, without heads.
func rows(t *testing.T) [][]string {
	t.Helper()
	text, err := os.ReadFile(streamsDoc)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 3 {
			t.Errorf("%d cells: %s", len(cells), line)
			continue
		}
		if strings.TrimSpace(cells[1]) != "here" {
			all = append(all, cells)
		}
	}
	return all
}

func TestEachMethodOfKIP535HasARow(t *testing.T) {
	var there, names []string
	for _, r := range rows(t) {
		for _, m := range code.FindAllStringSubmatch(r[0], -1) {
			there = append(there, m[1])
			name, _, _ := strings.Cut(m[1], "(")
			names = append(names, name)
		}
	}
	for _, method := range kip535 {
		if !slices.ContainsFunc(there, func(s string) bool { return s == method || strings.HasSuffix(s, "."+method) }) {
			t.Errorf("%s: no row for KIP-535's %s", streamsDoc, method)
		}
	}
	for _, name := range streams44 {
		if !slices.Contains(names, name) {
			t.Errorf("%s: no row for %s", streamsDoc, name)
		}
	}
}

// TestWhatTheKafkaStreamsTableNamesExists: each name in the column of ours, and each that looks like one of ours elsewhere.
func TestWhatTheKafkaStreamsTableNamesExists(t *testing.T) {
	known := wireNames()
	ours := map[string]bool{}
	for pkg := range allowed {
		for name := range exported(t, pkg) {
			known[name] = true
		}
		ours[pkg[strings.LastIndex(pkg, "/")+1:]] = true
	}
	for name := range known {
		if strings.Contains(name, "Service.") {
			first, _, _ := strings.Cut(name, ".")
			ours[first] = true
		}
	}
	n := 0
	check := func(name, where string, always bool) {
		first, rest, _ := strings.Cut(name, ".")
		if always || rest != "" && ours[first] {
			if n++; !known[name] && !known["iqv1."+name] {
				t.Errorf("%s: %s does not exist: %s", streamsDoc, name, where)
			}
		}
	}
	for _, r := range rows(t) {
		if !code.MatchString(r[1]) {
			t.Errorf("%s: nothing of ours is named: %v", streamsDoc, r)
		}
		for _, m := range code.FindAllStringSubmatch(r[1], -1) {
			check(m[1], strings.Join(r, "|"), true)
		}
		for _, m := range code.FindAllStringSubmatch(r[2], -1) {
			check(m[1], strings.Join(r, "|"), false)
		}
	}
	text, err := os.ReadFile(streamsDoc)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "|") {
			for _, m := range code.FindAllStringSubmatch(line, -1) {
				check(m[1], line, false)
			}
		}
	}
	if n < 100 {
		t.Errorf("%s names only %d things of ours", streamsDoc, n)
	}
}

// wireNames are the RPCs as Service.Method, the messages, their fields as Message.field, and the values of enumerations.
func wireNames() map[string]bool {
	names := map[string]bool{}
	enums := func(list protoreflect.EnumDescriptors) {
		for i := range list.Len() {
			for j := range list.Get(i).Values().Len() {
				names[string(list.Get(i).Values().Get(j).Name())] = true
			}
		}
	}
	for _, f := range []protoreflect.FileDescriptor{iqv1.File_iq_v1_query_proto, iqv1.File_iq_v1_metadata_proto, iqv1.File_iq_v1_control_proto} {
		enums(f.Enums())
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				names[string(s.Name())+"."+string(s.Methods().Get(j).Name())] = true
			}
		}
		for i := range f.Messages().Len() {
			m := f.Messages().Get(i)
			enums(m.Enums())
			names[string(m.Name())] = true
			for j := range m.Fields().Len() {
				names[string(m.Name())+"."+string(m.Fields().Get(j).Name())] = true
			}
		}
	}
	return names
}

// exported are the names that a package offers: pkg.Name, pkg.Type.Method and pkg.Type.Field.
func exported(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		add := func(parts ...string) {
			if !slices.ContainsFunc(parts, func(p string) bool { return !ast.IsExported(p) }) {
				names[f.Name.Name+"."+strings.Join(parts, ".")] = true
			}
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name.Name)
				} else if on := receiver(d.Recv.List[0].Type); on != "" {
					add(on, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					addSpec(s, add)
				}
			}
		}
	}
	return names
}

func receiver(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func addSpec(s ast.Spec, add func(...string)) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, id := range s.Names {
			add(id.Name)
		}
	case *ast.TypeSpec:
		add(s.Name.Name)
		var fields *ast.FieldList
		switch t := s.Type.(type) {
		case *ast.StructType:
			fields = t.Fields
		case *ast.InterfaceType:
			fields = t.Methods
		default:
			return
		}
		for _, f := range fields.List {
			for _, id := range f.Names {
				add(s.Name.Name, id.Name)
			}
		}
	}
}
