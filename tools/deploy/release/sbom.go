package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sbom writes which modules a program was linked from, as CycloneDX in JSON. It is read from the program itself, so it cannot
// name more or less than what is in it.
func (r *release) sbom(ctx context.Context, arch, program string) error {
	out := filepath.Join(r.out, fmt.Sprintf("%s_%s_linux_%s.cdx.json", program, r.number(), arch))
	cmd := exec.CommandContext(ctx, "go", "tool", "cyclonedx-gomod", "bin", "-json", "-std", "-noserial", "-notimestamp",
		"-version", r.version, "-output", out, r.program(arch, program))
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("SBOM of %s for %s: %w\n%s", program, arch, err, said.String())
	}
	return nil
}

// number is the version as files are named after it.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }
