package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// checksumFile is in the form of sha256sum: `sha256sum -c SHA256SUMS` checks a download.
const checksumFile = "SHA256SUMS"

// writeChecksums sums up every file below dir, in the order of their names.
func writeChecksums(dir string) error {
	var text strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		sum := sha256.New()
		if _, err := io.Copy(sum, f); err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", hex.EncodeToString(sum.Sum(nil)), filepath.ToSlash(name))
		return nil
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, checksumFile), []byte(text.String()), 0o644) //nolint:gosec // for all to read
}
