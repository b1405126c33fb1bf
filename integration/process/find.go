package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Find gives the folder that has all of the programs: bin, if that is given, and then it must have them; else the folder of
// this executable; else they are built into dir.
func Find(ctx context.Context, bin, dir string, names ...string) (string, error) {
	has := func(folder string) error {
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
				return err
			}
		}
		return nil
	}
	if bin != "" {
		return bin, has(bin)
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this executable: %w", err)
	}
	if beside := filepath.Dir(self); has(beside) == nil {
		return beside, nil
	}
	for _, name := range names {
		if _, err := Build(ctx, dir, name); err != nil {
			return "", fmt.Errorf("%s is not beside %s, and (from this working directory) cannot be built; give --bin: %w", name, filepath.Base(self), err)
		}
	}
	return dir, nil
}
