package maven

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

const (
	// buildTimeout bounds one build; with an empty Maven cache it takes a minute.
	buildTimeout = 10 * time.Minute
	// tailBytes is how much of Maven's output an error quotes.
	tailBytes = 2 << 10
)

// A Project is a Maven project whose package phase leaves target/<Name>-1.jar and, in target/lib, what that needs.
type Project struct {
	// Name is the artifact's, and the cache folder's.
	Name string
	// Sources are the pom.xml and what it builds.
	Sources fs.FS
	// More are further files, by the folder in the project to which they go.
	More map[string]fs.FS
}

// A Program is a project that is built.
type Program struct {
	// Java is the executable, Version its version.
	Java, Version string
	// Classes is the class path.
	Classes string
}

// Build builds the project, or finds it in the user's cache folder. It needs Maven and a JDK of 17 or newer.
func Build(ctx context.Context, p Project) (*Program, error) {
	home, version, err := NewestJDK()
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", p.Name, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", p.Name, err)
	}
	name, err := p.fingerprint()
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", p.Name, err)
	}
	dir := filepath.Join(cache, "iqgate", p.Name+"-"+name)
	jar := filepath.Join(dir, p.jar())
	prog := &Program{
		Java: filepath.Join(home, "bin", "java"), Version: version,
		Classes: jar + string(filepath.ListSeparator) + filepath.Join(dir, "lib", "*"),
	}
	if _, err := os.Stat(jar); err == nil {
		return prog, nil
	}
	if err := p.build(ctx, home, dir); err != nil {
		return nil, fmt.Errorf("build %s: %w", p.Name, err)
	}
	return prog, nil
}

func (p Project) jar() string { return p.Name + "-1.jar" }

// fingerprint names the version of the sources.
func (p Project) fingerprint() (string, error) {
	sum := sha256.New()
	err := addTo(sum, ".", p.Sources)
	for _, folder := range slices.Sorted(maps.Keys(p.More)) {
		err = errors.Join(err, addTo(sum, folder, p.More[folder]))
	}
	return hex.EncodeToString(sum.Sum(nil)[:6]), err
}

func addTo(sum hash.Hash, folder string, files fs.FS) error {
	return fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		_, _ = fmt.Fprintf(sum, "%s %s %d\n", folder, path, len(text)) // never fails
		_, _ = sum.Write(text)
		return err
	})
}

// build has Maven build a copy of the sources, which then appears as dir by a rename. Of two processes that build at the
// same time, one wins.
func (p Project) build(ctx context.Context, home, dir string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return errors.New("no Maven found (no mvn on the PATH); install the Debian package maven")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), p.Name+"-*.part")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a leftover does no harm
	err = os.CopyFS(work, p.Sources)
	for folder, files := range p.More {
		err = errors.Join(err, os.CopyFS(filepath.Join(work, filepath.FromSlash(folder)), files))
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "package")
	cmd.Dir, cmd.WaitDelay = work, time.Second
	cmd.Env = append(os.Environ(), "JAVA_HOME="+home)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn package: %w: %s", errors.Join(err, ctx.Err()), out[max(0, len(out)-tailBytes):])
	}
	err = os.Rename(filepath.Join(work, "target"), dir)
	if _, there := os.Stat(filepath.Join(dir, p.jar())); there == nil {
		return nil
	}
	return err
}
