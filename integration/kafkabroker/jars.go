package kafkabroker

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// fetchTimeout bounds one run of Maven; the jars are 54 MB.
	fetchTimeout = 5 * time.Minute
	// lockPoll is how often a process that waits for another one's fetch looks again.
	lockPoll = 100 * time.Millisecond
	// tailBytes is how much of a child's output an error quotes.
	tailBytes = 2 << 10
)

//go:embed pom.xml
var pom []byte

// Jars returns the folder that holds the jars of a Kafka broker. The first call on a machine has Maven fetch them
// into the user's cache folder, which takes some 15 s; later ones find them there. Processes may call it at the
// same time: one fetches, the others wait until ctx ends.
func Jars(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("kafka jars: %w", err)
	}
	return cachedJars(ctx, filepath.Join(cache, "iqgate"), pom, mavenCopy)
}

// cachedJars returns <root>/kafka-<hash of pom>, filled by fetch if it is not there. The folder appears by a
// rename when it is complete, and only the holder of the lock file beside it fetches.
func cachedJars(ctx context.Context, root string, pom []byte, fetch func(ctx context.Context, pomFile, outDir string) error) (string, error) {
	sum := sha256.Sum256(pom)
	dir := filepath.Join(root, "kafka-"+hex.EncodeToString(sum[:6]))
	if isDir(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(root, 0o750); err != nil {
		return "", fmt.Errorf("kafka jars: %w", err)
	}
	unlock, err := lockFile(ctx, dir+".lock")
	if err != nil {
		return "", fmt.Errorf("kafka jars: %w", err)
	}
	defer unlock()
	if isDir(dir) { // another process fetched while this one waited
		return dir, nil
	}
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil { // left by a fetch that was cut short
		return "", fmt.Errorf("kafka jars: %w", err)
	}
	if err := os.MkdirAll(part, 0o750); err != nil {
		return "", fmt.Errorf("kafka jars: %w", err)
	}
	pomFile := filepath.Join(part, "pom.xml")
	if err := os.WriteFile(pomFile, pom, 0o600); err != nil {
		return "", fmt.Errorf("kafka jars: %w", err)
	}
	lib := filepath.Join(part, "lib")
	if err := fetch(ctx, pomFile, lib); err != nil {
		return "", fmt.Errorf("kafka jars: %w", err)
	}
	if err := os.Rename(lib, dir); err != nil {
		return "", fmt.Errorf("kafka jars: %w", err)
	}
	return dir, os.RemoveAll(part)
}

// mavenCopy has Maven copy the runtime jars of pomFile and all that they need into outDir.
func mavenCopy(ctx context.Context, pomFile, outDir string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return notInstalled(errNoMaven)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "-f", pomFile, "dependency:copy-dependencies",
		"-DoutputDirectory="+outDir, "-DincludeScope=runtime")
	cmd.WaitDelay = time.Second
	if _, err := exec.LookPath("java"); err != nil && os.Getenv("JAVA_HOME") == "" {
		if j, err := findJava(ctx); err == nil { // mvn looks at these two only
			cmd.Env = append(os.Environ(), "JAVA_HOME="+filepath.Dir(filepath.Dir(j.java)))
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn dependency:copy-dependencies: %w: %s", errors.Join(err, ctx.Err()), tail(out))
	}
	return nil
}

// lockFile takes the exclusive lock of a file, which ends with the process if not before, or gives up with ctx.
func lockFile(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // closing unlocks
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for the lock %s: %w", name, context.Cause(ctx)), f.Close())
		case <-tick.C:
		}
	}
}

// isDir reports whether a folder of that name is there.
func isDir(name string) bool {
	fi, err := os.Stat(name)
	return err == nil && fi.IsDir()
}

// tail returns the end of a child's output, for an error.
func tail(out []byte) string {
	if len(out) > tailBytes {
		out = out[len(out)-tailBytes:]
	}
	return strings.TrimSpace(string(out))
}
