package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	// minJava is the oldest Java on which a broker of Kafka 4 runs.
	minJava = 17
	// versionTimeout bounds one run of `java -version`.
	versionTimeout = 20 * time.Second
)

// ErrNotInstalled marks the errors of [Find] and [Start] that installing something mends.
var ErrNotInstalled = errors.New("a real Kafka cannot run here")

// errNoMaven is the other half of what Find looks for.
var errNoMaven = errors.New("no Maven found (no mvn on the PATH)")

// jvmGlobs are the folders in which Debian, Fedora and macOS keep their Javas.
var jvmGlobs = []string{"/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home"}

// jdk is one Java found on this machine.
type jdk struct {
	java  string // path of the executable
	major int    // 17 for "17.0.15", 8 for "1.8.0_392"
}

// Find says whether a real Kafka can run on this machine. It returns nil when Java 17 or newer and Maven are
// here, else an error that says what was found and what to install, and that is [ErrNotInstalled].
func Find(ctx context.Context) error {
	_, err := findJava(ctx)
	_, mvnErr := exec.LookPath("mvn")
	if mvnErr != nil {
		err = errors.Join(err, errNoMaven)
	}
	return notInstalled(err)
}

// notInstalled adds to err, unless it is nil, what to install.
func notInstalled(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s; install the Debian packages default-jre-headless and maven, or any JDK >= %d and Maven",
		ErrNotInstalled, strings.ReplaceAll(err.Error(), "\n", "; "), minJava)
}

// findJava returns the newest Java of JAVA_HOME, the usual folders and the PATH.
func findJava(ctx context.Context) (jdk, error) {
	var homes []string
	if home := os.Getenv("JAVA_HOME"); home != "" {
		homes = append(homes, home)
	}
	for _, glob := range jvmGlobs {
		found, _ := filepath.Glob(glob) // fails only on a malformed pattern
		homes = append(homes, found...)
	}
	var all []jdk
	for _, home := range homes {
		if java, err := exec.LookPath(filepath.Join(home, "bin", "java")); err == nil {
			all = append(all, jdk{java: java, major: javaMajor(ctx, java)})
		}
	}
	if java, err := exec.LookPath("java"); err == nil {
		all = append(all, jdk{java: java, major: javaMajor(ctx, java)})
	}
	return newest(all)
}

// newest picks the Java with the highest major version, the first one of equals, and refuses what is too old.
func newest(all []jdk) (jdk, error) {
	var best jdk
	for _, j := range all {
		if j.major > best.major {
			best = j
		}
	}
	switch {
	case best.major == 0:
		return jdk{}, fmt.Errorf("no Java found (looked at JAVA_HOME, %s and the PATH)", strings.Join(jvmGlobs, ", "))
	case best.major < minJava:
		return jdk{}, fmt.Errorf("the newest Java found is %d at %s, too old", best.major, best.java)
	}
	return best, nil
}

// javaMajor returns the major version of an executable, 0 when it cannot be told. It reads the file `release` that
// every JDK since 9 carries, and asks the executable itself only where there is none.
func javaMajor(ctx context.Context, java string) int {
	if path, err := filepath.EvalSymlinks(java); err == nil {
		if text, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(path)), "release")); err == nil {
			if major := parseJavaVersion(string(text)); major != 0 {
				return major
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	text, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		return 0
	}
	return parseJavaVersion(string(text))
}

// javaVersion matches JAVA_VERSION="17.0.15" of a release file and `version "1.8.0_392"` of java -version.
var javaVersion = regexp.MustCompile(`(?m)(?:^JAVA_VERSION=|\bversion )"(?:1\.)?(\d+)`)

// parseJavaVersion returns the major version that the text names, 0 when it names none.
func parseJavaVersion(text string) int {
	m := javaVersion.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	major, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return major
}
