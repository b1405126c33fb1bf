package maven

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// minJava is the oldest Java that the sources are compiled for.
const minJava = 17

// jvmGlobs are the folders in which Debian, Fedora and macOS keep their Javas.
var jvmGlobs = []string{"/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home"}

// release matches a JDK's file of that name.
var release = regexp.MustCompile(`(?m)^JAVA_VERSION="((\d+)[^"]*)"`)

// NewestJDK returns the home folder of the newest JDK of JAVA_HOME and the usual folders, and its version.
func NewestJDK() (home, version string, err error) {
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
