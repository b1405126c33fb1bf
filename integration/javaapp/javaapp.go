package javaapp

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/iqgate/iqgate/integration/maven"
	"github.com/iqgate/iqgate/integration/process"
)

//go:embed pom.xml src
var sources embed.FS

// flags of the JVM: quick to start, and small.
var flags = []string{"-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"}

// Program is the application, built.
type Program struct{ *maven.Program }

// Build builds the application with the product's .proto files, or finds it in the user's cache folder. protos is the
// repository's folder proto.
func Build(ctx context.Context, protos fs.FS) (*Program, error) {
	built, err := maven.Build(ctx, maven.Project{
		Name: "javaapp", Sources: sources, More: map[string]fs.FS{"src/main/proto": onlyProtos{protos}},
	})
	if err != nil {
		return nil, fmt.Errorf("the Kafka Streams application: %w", err)
	}
	return &Program{built}, nil
}

// onlyProtos hides the generated Go code beside the .proto files.
type onlyProtos struct{ fs.FS }

// ReadDir implements fs.ReadDirFS.
func (o onlyProtos) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(o.FS, name)
	return slices.DeleteFunc(all, func(d fs.DirEntry) bool { return !d.IsDir() && !strings.HasSuffix(d.Name(), ".proto") }), err
}

// Options of one instance.
type Options struct {
	// Brokers, Application and StateDir say what is processed and where. Required.
	Brokers, Application, StateDir string
	// Port is where it answers iq.v1, DumpPort where it tells all that its stores hold, both on the loopback interface.
	// Required.
	Port, DumpPort string
	// Stores are "all", or "shared" for those that the product's own topology has too. Default all.
	Stores string
	// Guarantee is at_least_once or exactly_once_v2. Default the latter.
	Guarantee string
	// StoreFormat is dsl.store.format. Default Kafka Streams' own.
	StoreFormat string
	// CommitMS is commit.interval.ms. Default Kafka Streams' own.
	CommitMS string
	// Routers are those to report to.
	Routers []string
	// Log takes what it prints. Required.
	Log string
}

// Spec says how to run an instance.
func (p *Program) Spec(o Options) process.Spec {
	return process.Spec{
		Path: p.Java, Args: append(slices.Clone(flags), "-cp", p.Classes, "javaapp.App"), Log: o.Log,
		Env: []string{
			"BOOTSTRAP=" + o.Brokers, "APP_ID=" + o.Application, "STATE_DIR=" + o.StateDir, "PORT=" + o.Port, "DUMP_PORT=" + o.DumpPort,
			"STORES=" + o.Stores, "GUARANTEE=" + o.Guarantee, "STORE_FORMAT=" + o.StoreFormat, "COMMIT_MS=" + o.CommitMS,
			"ROUTERS=" + strings.Join(o.Routers, ","),
		},
	}
}
