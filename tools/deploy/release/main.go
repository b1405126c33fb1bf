// Command release writes what a release consists of, for each architecture: static programs, an archive of them, an SBOM
// (CycloneDX) of each, and an image of all; then the checksums. In order:
//
//  1. compile.go builds the programs and looks whether they are what was asked for.
//  2. sbom.go and archive.go describe and pack them.
//  3. image.go makes an image of the programs alone: an OCI layout of all architectures, in one tar file.
//  4. checksums.go sums up every file.
//
// The same sources, version and time give the same bytes, whoever builds them wherever.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// programs are what a release has, by the names of their folders below cmd/.
var programs = []string{"iqnode", "iqrouter", "iqctl", "iqbench"}

// A release is what to build, from where to where.
type release struct {
	source  string // the repository's root
	out     string
	version string
	commit  string
	time    time.Time // of every file in archives and images
	archs   []string  // as Go names them
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	r := &release{}
	var archs string
	var seconds int64
	flag.StringVar(&r.source, "source", "../..", "the repository's root")
	flag.StringVar(&r.out, "out", "", "folder to write to; what it has is replaced")
	flag.StringVar(&r.version, "version", "", "version of the release")
	flag.StringVar(&r.commit, "commit", "", "commit that is built")
	flag.Int64Var(&seconds, "time", 0, "time of the commit, in seconds since 1970; the time of every packed file")
	flag.StringVar(&archs, "arch", "amd64,arm64", "architectures, with commas between them")
	flag.Parse()
	r.time, r.archs = time.Unix(seconds, 0).UTC(), strings.Split(archs, ",")
	if err := r.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1) //nolint:gocritic // stop has nothing left to do
	}
}

func (r *release) validate() error {
	var errs []error
	if r.out == "" {
		errs = append(errs, errors.New("-out is missing"))
	}
	if r.version == "" || strings.ContainsAny(r.version, "/ '\"") {
		errs = append(errs, fmt.Errorf("-version %q must be a version such as v1.2.3", r.version))
	}
	if strings.ContainsAny(r.commit, "/ '\"") {
		errs = append(errs, fmt.Errorf("-commit %q must be a commit's hash", r.commit))
	}
	for _, arch := range r.archs {
		if !slices.Contains([]string{"amd64", "arm64"}, arch) {
			errs = append(errs, fmt.Errorf("-arch %q must be amd64 or arm64", arch))
		}
	}
	return errors.Join(errs...)
}

func (r *release) run(ctx context.Context) error {
	if err := r.validate(); err != nil {
		return err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	for _, arch := range r.archs {
		if err := r.compile(ctx, arch); err != nil {
			return err
		}
		for _, p := range programs {
			if err := r.sbom(ctx, arch, p); err != nil {
				return err
			}
		}
		if err := r.archive(arch); err != nil {
			return err
		}
	}
	if err := r.image(); err != nil {
		return err
	}
	return writeChecksums(r.out)
}

// folder is where the programs of an architecture are.
func (r *release) folder(arch string) string { return filepath.Join(r.out, "linux_"+arch) }

// program is the file of a program.
func (r *release) program(arch, name string) string { return filepath.Join(r.folder(arch), name) }
