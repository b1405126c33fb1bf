package peer

import (
	"context"
	"embed"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/iqgate/iqgate/integration/maven"
	"github.com/iqgate/iqgate/integration/process"
)

//go:embed pom.xml src
var sources embed.FS

// flags of the JVM: a heap that is never the bottleneck, and the collector that a server gets by default.
var flags = []string{"-Xms512m", "-Xmx1g", "-XX:+UseG1GC", "-XX:+ExitOnOutOfMemoryError", "--enable-native-access=ALL-UNNAMED"}

// Program is the application, built.
type Program struct {
	// Java is the executable, Version its version.
	Java, Version string
	classes       string
}

// Options of one instance. Zero values are Kafka Streams' defaults.
type Options struct {
	// Brokers, Application, Topic and StateDir say what is counted and where. Required.
	Brokers, Application, Topic, StateDir string
	// Port is where it answers, on the loopback interface. Required.
	Port string
	// NoCache turns the cache of records off, so that each record writes one to the changelog.
	NoCache bool
	// TransactionalStores keeps stores in order over a crash (KIP-892).
	TransactionalStores bool
	// SpreadAtOnce gives an instance its share of the tasks although it has none of their state yet.
	SpreadAtOnce bool
	// Log takes what it prints. Required.
	Log string
}

// Spec says how to run an instance: two threads, exactly_once_v2, gRPC's direct executor.
func (p *Program) Spec(o Options) process.Spec {
	env := []string{
		"BOOTSTRAP=" + o.Brokers, "APP_ID=" + o.Application, "IN_TOPIC=" + o.Topic, "STATE_DIR=" + o.StateDir, "PORT=" + o.Port,
		"THREADS=2", "GUARANTEE=exactly_once_v2", "EXECUTOR=direct", "TX_STORES=" + strconv.FormatBool(o.TransactionalStores),
	}
	if o.NoCache {
		env = append(env, "CACHE_BYTES=0")
	}
	if o.SpreadAtOnce {
		env = append(env, "ACCEPTABLE_LAG="+strconv.Itoa(math.MaxInt32))
	}
	return process.Spec{Path: p.Java, Args: append(slices.Clone(flags), "-cp", p.classes, "peer.App"), Env: env, Log: o.Log}
}

// Build builds the application, or finds it in the user's cache folder. It needs Maven and a JDK of 17 or newer.
func Build(ctx context.Context) (*Program, error) {
	built, err := maven.Build(ctx, maven.Project{Name: "peer", Sources: sources})
	if err != nil {
		return nil, fmt.Errorf("the Kafka Streams peer: %w", err)
	}
	return &Program{Java: built.Java, Version: built.Version, classes: built.Classes}, nil
}
