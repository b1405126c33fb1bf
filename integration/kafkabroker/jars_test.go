package kafkabroker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

func TestJarsAreFetchedOnceByProcessesAtTheSameTime(t *testing.T) {
	root := filepath.Join(t.TempDir(), "cache")
	var fetches atomic.Int32
	fetch := func(_ context.Context, pomFile, outDir string) error {
		fetches.Add(1)
		if text, err := os.ReadFile(pomFile); err != nil || string(text) != "<project/>" {
			t.Errorf("the pom that Maven gets is %q, %v; want <project/>", text, err)
		}
		if err := os.Mkdir(outDir, 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(outDir, "a.jar"), []byte("jar"), 0o600)
	}
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			dir, err := cachedJars(t.Context(), root, []byte("<project/>"), fetch)
			if err != nil {
				return err
			}
			_, err = os.Stat(filepath.Join(dir, "a.jar"))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := fetches.Load(); n != 1 {
		t.Errorf("fetched %d times, want once", n)
	}
	fetch = func(context.Context, string, string) error { return errors.New("another pom") }
	if _, err := cachedJars(t.Context(), root, []byte("<project>2</project>"), fetch); err == nil {
		t.Error("another pom got the jars of the first one, want a fetch of its own")
	}
}

func TestJarsOfAFailedFetchAreNotUsed(t *testing.T) {
	root := t.TempDir()
	failing := func(_ context.Context, _, outDir string) error {
		if err := os.Mkdir(outDir, 0o700); err != nil {
			return err
		}
		return errors.New("no network")
	}
	if _, err := cachedJars(t.Context(), root, []byte("p"), failing); err == nil || !strings.Contains(err.Error(), "no network") {
		t.Fatalf("failed fetch: %v, want its error", err)
	}
	good := func(_ context.Context, _, outDir string) error { return os.Mkdir(outDir, 0o700) }
	dir, err := cachedJars(t.Context(), root, []byte("p"), good)
	if err != nil || !isDir(dir) {
		t.Errorf("fetch after a failed one: %q, %v; want the folder", dir, err)
	}
}

func TestWaitForAnotherFetchEndsWithTheContext(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("enough waiting"))
	defer cancel()
	if _, err := lockFile(ctx, name); err == nil || !strings.Contains(err.Error(), "enough waiting") {
		t.Errorf("lock that is held: %v, want the context's cause", err)
	}
	unlock()
	again, err := lockFile(t.Context(), name)
	if err != nil {
		t.Fatalf("lock that was released: %v", err)
	}
	again()
}

func TestMavenFailureIsQuoted(t *testing.T) {
	bin := t.TempDir()
	writeProgram(t, filepath.Join(bin, "mvn"), "echo \"args: $*\"; echo 'Could not resolve kafka_2.13' >&2; exit 1")
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	err := mavenCopy(t.Context(), "/p/pom.xml", "/p/lib")
	if err == nil {
		t.Fatal("mvn failed and mavenCopy did not")
	}
	for _, want := range []string{"Could not resolve kafka_2.13", "-f /p/pom.xml", "-DoutputDirectory=/p/lib", "exit status 1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}
