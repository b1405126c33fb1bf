package main

import (
	"context"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// linked is the package whose variables version and commit the linker sets.
const linked = "github.com/iqgate/iqgate/cmd/internal/build"

// compile builds the programs for one architecture, and looks whether they are as they should be.
func (r *release) compile(ctx context.Context, arch string) error {
	out, err := filepath.Abs(r.folder(arch))
	if err != nil {
		return err
	}
	// No VCS stamp: it would tell a checkout that was touched since from one that was not, and version and commit are given.
	args := []string{
		"build", "-trimpath", "-buildvcs=false", "-o", out + "/",
		"-ldflags", fmt.Sprintf("-s -w -X %s.version=%s -X %s.commit=%s", linked, r.version, linked, r.commit),
	}
	for _, p := range programs {
		args = append(args, "./cmd/"+p)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=-mod=readonly", "GOWORK=off")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build for %s: %w", arch, err)
	}
	for _, p := range programs {
		if err := inspect(r.program(arch, p), arch); err != nil {
			return fmt.Errorf("%s for %s: %w", p, arch, err)
		}
	}
	return nil
}

// inspect tells whether a file is a static program for the architecture that names no folder of who built it.
func inspect(path, arch string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	var errs []error
	for key, want := range map[string]string{"CGO_ENABLED": "0", "GOOS": "linux", "GOARCH": arch, "-trimpath": "true"} {
		if settings[key] != want {
			errs = append(errs, fmt.Errorf("built with %s=%q, want %q", key, settings[key], want))
		}
	}
	f, err := elf.Open(path)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	defer func() { _ = f.Close() }()
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
	if f.Machine != machine {
		errs = append(errs, fmt.Errorf("is for %s, want %s", f.Machine, machine))
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			errs = append(errs, fmt.Errorf("is not static: it has %s", p.Type))
		}
	}
	return errors.Join(errs...)
}
