// Command configdoc writes what the documentation says of the programs' settings, as the programs themselves tell it.
//
//	go run ./cmd/internal/config/configdoc docs
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/iqgate/iqgate/cmd/internal/config"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: configdoc FOLDER")
		os.Exit(2)
	}
	for _, program := range []string{"iqnode", "iqrouter"} {
		for _, g := range config.GeneratedOf(program) {
			if err := write(os.Args[1], program, g); err != nil {
				fmt.Fprintf(os.Stderr, "configdoc: %s: %v\n", g.File, err)
				os.Exit(1)
			}
		}
	}
}

// write asks the program and puts its answer into the file.
func write(folder, program string, g config.Generated) error {
	cmd := exec.Command("go", "run", "github.com/iqgate/iqgate/cmd/"+program, "config", g.Command) //nolint:noctx // ends with this process
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return err
	}
	path := filepath.Join(folder, g.File)
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	now, err := g.Into(string(old), string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(now), 0o644) //nolint:gosec // documentation is for all to read
}
