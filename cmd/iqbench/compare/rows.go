package compare

import "slices"

// Figures, by the name under which measures give them.
const (
	fNodeRate, fNodeP99         = "node 4x16 rate", "node 4x16 p99"
	fNodeOneP50                 = "node 1x1 p50"
	fEchoRate, fEchoP99         = "echo 4x16 rate", "echo 4x16 p99"
	fStreamsRate, fStreamsP99   = "streams local 4x16 rate", "streams local 4x16 p99"
	fRouterRate, fRouterP99     = "router 4x16 rate", "router 4x16 p99"
	fRouterOneP50               = "router 1x1 p50"
	fProxyRate, fProxyP99       = "proxy 4x16 rate", "proxy 4x16 p99"
	fRemoteRate, fRemoteP99     = "streams remote 4x16 rate", "streams remote 4x16 p99"
	fLookupsRate                = "node lookups rate"
	fRouterLookupsRate          = "router lookups rate"
	fLookupsCPU                 = "node CPU per lookup of a stream"
	fRouterLookupsCPU           = "router and node CPU per lookup of a stream"
	fNodeRecords, fNodeMemory   = "node records", "node memory"
	fNodeRestore                = "node restore"
	fNodeClean, fNodeCrash      = "node start after a clean stop", "node start after kill -9"
	fPeerRecords, fPeerMemory   = "streams records", "streams memory"
	fPeerRestore                = "streams restore"
	fPeerClean, fPeerCrash      = "streams start after a clean stop", "streams start after kill -9"
	fFollow                     = "replica node follows streams"
	fBootstrap                  = "node bootstrap from a peer"
	fNodeCPU, fStreamsCPU       = "node CPU per lookup", "streams local CPU per lookup"
	fEchoCPU, fProxyCPU         = "echo CPU per lookup", "proxy and node CPU per lookup"
	fRouterCPU, fRemoteCPU      = "router and node CPU per lookup", "streams remote CPU per lookup"
	fNodeRecordCPU              = "node CPU per record"
	fPeerRecordCPU              = "streams CPU per record"
	fStandbyP99                 = "standby visible lag p99"
	fBusyP99, fIdleP99          = "node 1x1 p99 while processing", "node 1x1 p99 idle"
	unitRate, unitMicros        = "reads/s", "us"
	unitRecords, unitMB         = "records/s", "MB"
	unitSeconds, unitMillis     = "s", "ms"
	wantStartSeconds            = 1
	wantStandbyMillis           = 300
	idGet, idEcho, idRouter     = "get", "echo", "router"
	idRemote, idProcess         = "remote", "process"
	idRestore, idStart          = "restore", "start"
	idLookups, idLookupsStreams = "lookups", "lookups-streams"
	idLookupsRemote             = "lookups-remote"
	idBootstrap, idLag, idBusy  = "bootstrap", "lag", "busy"
	idScan, idMultiGet          = "scan", "multiget"
	fScanRows, fMultiKeys       = "scan rows", "MultiGet keys"
	fTableRate                  = "router 4x16 rate of a table"
	unitRows, unitKeys          = "rows/s", "keys/s"
	wantScanRows                = 300_000
	idFollow                    = "follow"
	idOverload                  = "overload"
	fBestRate, fOverRate        = "node best rate", "node rate under overload"
	fOverP99, fOverMemory       = "node p99 under overload", "node memory under overload"
	wantOverMillis              = 100
)

// A row compares two figures.
type row struct {
	id, text, unit string
	ours, theirs   string
	judge          judge
	want           float64
}

// rows is the table. Several rows may belong to one measure of the command line.
func rows() []row {
	return []row{
		{idGet, "unary Get at a node, 4x16, against Kafka Streams + grpc-java local hit", unitRate, fNodeRate, fStreamsRate, ratioAtLeast, 1.05},
		{idGet, "p99 of unary Get at a node, 4x16, against Kafka Streams local hit", unitMicros, fNodeP99, fStreamsP99, ratioAtMost, 1},
		{idEcho, "unary Get at a node against bare grpc-go echo of the same bytes", unitRate, fNodeRate, fEchoRate, ratioAtLeast, 0.85},
		{idLookups, "Lookups stream at a node against unary Get at the same node", unitRate, fLookupsRate, fNodeRate, ratioAtLeast, 2.5},
		{idLookupsStreams, "Lookups stream at a node against Kafka Streams local hit", unitRate, fLookupsRate, fStreamsRate, ratioAtLeast, 3},
		{idRouter, "unary Get through the router against direct to the node, 4x16", unitRate, fRouterRate, fNodeRate, ratioAtLeast, 0.8},
		{idRouter, "median latency of Get through the router against direct, 1x1", unitMicros, fRouterOneP50, fNodeOneP50, ratioAtMost, 2},
		{idRemote, "unary Get through the router against Kafka Streams, every key remote", unitRate, fRouterRate, fRemoteRate, ratioAtLeast, 1.6},
		{idRemote, "p99 of unary Get through the router against Kafka Streams remote", unitMicros, fRouterP99, fRemoteP99, ratioAtMost, 1},
		{idLookupsRemote, "Lookups stream through the router against Kafka Streams, every key remote", unitRate, fRouterLookupsRate, fRemoteRate, ratioAtLeast, 4.5},
		{idProcess, "exactly-once processing, count per key, against exactly_once_v2", unitRecords, fNodeRecords, fPeerRecords, ratioAtLeast, 2},
		{idProcess, "memory of exactly-once processing (peak RSS) against exactly_once_v2", unitMB, fNodeMemory, fPeerMemory, ratioAtMost, 0.5},
		{idRestore, "restore of the changelog, state wiped, against Kafka Streams", unitRecords, fNodeRestore, fPeerRestore, ratioAtLeast, 2},
		{idFollow, "following Kafka Streams' changelog from nothing, against its own restore of it", unitRecords, fFollow, fPeerRestore, ratioAtLeast, 1},
		{idBootstrap, "bootstrap from a peer's snapshot against our own restore", unitRecords, fBootstrap, fNodeRestore, ratioAtLeast, 3},
		{idStart, "start to serving with local state, after a clean stop", unitSeconds, fNodeClean, fPeerClean, oursAtMost, wantStartSeconds},
		{idStart, "start to serving with local state, after kill -9", unitSeconds, fNodeCrash, fPeerCrash, oursAtMost, wantStartSeconds},
		{idLag, "visible lag of a standby at 20,000 records/s in, p99", unitMillis, fStandbyP99, "", oursAtMost, wantStandbyMillis},
		{idBusy, "p99 of a read while the node processes at full speed against idle, 1x1", unitMicros, fBusyP99, fIdleP99, ratioAtMost, 3},
		{idScan, "prefix scan through the router, rows of 100 B in key order over all partitions", unitRows, fScanRows, "", oursAtLeast, wantScanRows},
		{idOverload, "unary Get at a node with 10 times as many in flight, against its best rate", unitRate, fOverRate, fBestRate, ratioAtLeast, 0.8},
		{idOverload, "p99 of unary Get at a node with 10 times as many in flight", unitMillis, fOverP99, "", oursAtMost, wantOverMillis},
		{idMultiGet, "MultiGet of 100 keys through the router against unary Get, 4x16", unitKeys, fMultiKeys, fTableRate, ratioAtLeast, 5},
	}
}

// references are figures beside the table that show where the limit of grpc-go is, and what processors were used for: on a
// machine that others use too, CPU per lookup moves less than rates do. Nothing is wanted of them.
func references() []row {
	return []row{
		{idGet, "CPU per lookup at a node against Kafka Streams local hit", unitMicros, fNodeCPU, fStreamsCPU, nothing, 0},
		{idEcho, "CPU per lookup at a node against bare grpc-go echo", unitMicros, fNodeCPU, fEchoCPU, nothing, 0},
		{idEcho, "p99 of unary Get at a node against bare grpc-go echo", unitMicros, fNodeP99, fEchoP99, nothing, 0},
		{idLookups, "CPU per lookup at a node, Lookups stream against unary Get", unitMicros, fLookupsCPU, fNodeCPU, nothing, 0},
		{idLookupsRemote, "Lookups stream through the router against one to the node", unitRate, fRouterLookupsRate, fLookupsRate, nothing, 0},
		{idLookupsRemote, "CPU per lookup of router and node, Lookups stream against unary Get", unitMicros, fRouterLookupsCPU, fRouterCPU, nothing, 0},
		{idRouter, "unary Get through the router against a bare grpc-go proxy", unitRate, fRouterRate, fProxyRate, nothing, 0},
		{idRouter, "p99 of unary Get through the router against a bare grpc-go proxy", unitMicros, fRouterP99, fProxyP99, nothing, 0},
		{idRouter, "CPU per lookup of router and node against the node alone", unitMicros, fRouterCPU, fNodeCPU, nothing, 0},
		{idRouter, "CPU per lookup of router and node against a bare grpc-go proxy and the node", unitMicros, fRouterCPU, fProxyCPU, nothing, 0},
		{idRemote, "CPU per lookup of router and node against Kafka Streams, every key remote", unitMicros, fRouterCPU, fRemoteCPU, nothing, 0},
		{idOverload, "peak memory of a node with 10 times as many lookups in flight, after it has processed the input", unitMB, fOverMemory, "", nothing, 0},
		{idProcess, "CPU per record, from the start on, against exactly_once_v2", unitMicros, fNodeRecordCPU, fPeerRecordCPU, nothing, 0},
	}
}

// measureIDs are the names that --only takes, in the table's order.
func measureIDs() []string {
	var ids []string
	for _, r := range rows() {
		if !slices.Contains(ids, r.id) {
			ids = append(ids, r.id)
		}
	}
	return ids
}

// quickIDs are the measures that --quick takes when none is named: those that have something to be compared with.
func quickIDs() []string {
	return slices.DeleteFunc(measureIDs(), func(id string) bool { return id == idScan || id == idMultiGet || id == idOverload })
}

// chosen are the rows of these measures, all of them for none.
func chosen(all []row, only []string) []row {
	if len(only) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(r row) bool { return !slices.Contains(only, r.id) })
}

// needed is every figure that rows compare.
func needed(all []row) map[string]bool {
	names := map[string]bool{}
	for _, r := range all {
		names[r.ours] = true
		if r.theirs != "" {
			names[r.theirs] = true
		}
	}
	return names
}
