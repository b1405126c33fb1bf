package peer

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/iqgate/iqgate/integration/process"
)

const (
	// buildTimeout bounds one build; with an empty Maven cache it takes a minute.
	buildTimeout = 10 * time.Minute
	// minJava is the oldest Java that the sources are compiled for.
	minJava = 17
	// tailBytes is how much of Maven's output an error quotes.
	tailBytes = 2 << 10
)

//go:embed pom.xml src
var sources embed.FS

// jvmGlobs are the folders in which Debian, Fedora and macOS keep their Javas.
var jvmGlobs = []string{"/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home"}

// flags of the JVM: a heap that is never the bottleneck, and the collector that a server gets by default.
var flags = []string{"-Xms512m", "-Xmx1g", "-XX:+UseG1GC", "-XX:+ExitOnOutOfMemoryError", "--enable-native-access=ALL-UNNAMED"}

// Program is the application, built.
type Program struct {
	// Java is the executable, Version its version.
	Java, Version string
	classes       string
}

// Options of one instance. Zero values are Kafka Streams' defaults.
type Options struct {
	// Brokers, Application, Topic and StateDir say what is counted and where. Required.
	Brokers, Application, Topic, StateDir string
	// Port is where it answers, on the loopback interface. Required.
	Port string
	// NoCache turns the cache of records off, so that each record writes one to the changelog.
	NoCache bool
	// TransactionalStores keeps stores in order over a crash (KIP-892).
	TransactionalStores bool
	// SpreadAtOnce gives an instance its share of the tasks although it has none of their state yet.
	SpreadAtOnce bool
	// Log takes what it prints. Required.
	Log string
}

// Spec says how to run an instance: two threads, exactly_once_v2, gRPC's direct executor.
func (p *Program) Spec(o Options) process.Spec {
	env := []string{
		"BOOTSTRAP=" + o.Brokers, "APP_ID=" + o.Application, "IN_TOPIC=" + o.Topic, "STATE_DIR=" + o.StateDir, "PORT=" + o.Port,
		"THREADS=2", "GUARANTEE=exactly_once_v2", "EXECUTOR=direct", "TX_STORES=" + strconv.FormatBool(o.TransactionalStores),
	}
	if o.NoCache {
		env = append(env, "CACHE_BYTES=0")
	}
	if o.SpreadAtOnce {
		env = append(env, "ACCEPTABLE_LAG="+strconv.Itoa(math.MaxInt32))
	}
	return process.Spec{Path: p.Java, Args: append(slices.Clone(flags), "-cp", p.classes, "peer.App"), Env: env, Log: o.Log}
}

// Build builds the application, or finds it in the user's cache folder. It needs Maven and a JDK of 17 or newer.
func Build(ctx context.Context) (*Program, error) {
	home, version, err := newestJDK()
	if err != nil {
		return nil, fmt.Errorf("the Kafka Streams peer: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("the Kafka Streams peer: %w", err)
	}
	name, err := fingerprint()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "iqgate", "peer-"+name)
	p := &Program{
		Java: filepath.Join(home, "bin", "java"), Version: version,
		classes: filepath.Join(dir, "peer-1.jar") + string(filepath.ListSeparator) + filepath.Join(dir, "lib", "*"),
	}
	if _, err := os.Stat(filepath.Join(dir, "peer-1.jar")); err == nil {
		return p, nil
	}
	if err := build(ctx, home, dir); err != nil {
		return nil, fmt.Errorf("build the Kafka Streams peer: %w", err)
	}
	return p, nil
}

// fingerprint names the version of the sources.
func fingerprint() (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := sources.ReadFile(path)
		_, _ = fmt.Fprintf(sum, "%s %d\n", path, len(text)) // never fails
		_, _ = sum.Write(text)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)[:6]), err
}

// build has Maven build a copy of the sources, which then appears as dir by a rename. Of two processes that build at the
// same time, one wins.
func build(ctx context.Context, home, dir string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return errors.New("no Maven found (no mvn on the PATH); install the Debian package maven")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "peer-*.part")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a leftover does no harm
	if err := os.CopyFS(work, sources); err != nil {
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
	if _, there := os.Stat(filepath.Join(dir, "peer-1.jar")); there == nil {
		return nil
	}
	return err
}

// release matches a JDK's file of that name.
var release = regexp.MustCompile(`(?m)^JAVA_VERSION="((\d+)[^"]*)"`)

// newestJDK returns the home folder of the newest JDK of JAVA_HOME and the usual folders, and its version.
func newestJDK() (home, version string, err error) {
	homes := []string{os.Getenv("JAVA_HOME")}
	for _, glob := range jvmGlobs {
		found, _ := filepath.Glob(glob) // fails only on a malformed pattern
		homes = append(homes, found...)
	}
	best := 0
	for _, h := range homes {
		if h == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(h, "bin", "javac")); err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(h, "release"))
		if err != nil {
			continue
		}
		major, full := parseRelease(string(text))
		if major > best {
			best, home, version = major, h, full
		}
	}
	if best < minJava {
		return "", "", fmt.Errorf("no JDK of %d or newer in JAVA_HOME and %s; install the Debian package default-jdk-headless", minJava, strings.Join(jvmGlobs, ", "))
	}
	return home, version, nil
}

// parseRelease reads the version from a JDK's file "release"; 0 when it names none.
func parseRelease(text string) (major int, full string) {
	m := release.FindStringSubmatch(text)
	if m == nil {
		return 0, ""
	}
	major, _ = strconv.Atoi(m[2]) // digits
	return major, m[1]
}
