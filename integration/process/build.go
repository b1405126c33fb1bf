package process

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// commands is where the programs' main packages are.
const commands = "github.com/iqgate/iqgate/cmd/"

// Build builds the program cmd/<name> into dir, without any build tag, and returns its path. The working directory must be
// inside the module.
func Build(ctx context.Context, dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, commands+name).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, out)
	}
	return path, nil
}
