package kafkabroker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJavaVersionIsReadFromReleaseFilesAndFromTheProgram(t *testing.T) {
	for text, want := range map[string]int{
		"IMPLEMENTOR=\"Debian\"\nJAVA_RUNTIME_VERSION=\"21.0.1+12\"\nJAVA_VERSION=\"17.0.15\"\n": 17,
		"openjdk version \"25\" 2025-09-16\nOpenJDK Runtime Environment":                         25,
		"openjdk version \"11.0.2\" 2019-01-15\n":                                                11,
		"java version \"1.8.0_392\"\n":                                                           8,
		"JAVA_VERSION=\"1.8.0_392\"\n":                                                           8,
		"The operation couldn't be completed. Unable to locate a Java Runtime.":                  0,
		"": 0,
	} {
		if got := parseJavaVersion(text); got != want {
			t.Errorf("parseJavaVersion(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestNewestJavaIsPreferredAndAnOldOneRefused(t *testing.T) {
	got, err := newest([]jdk{{"/a", 17}, {"/b", 25}, {"/c", 25}, {"/d", 0}})
	if want := (jdk{"/b", 25}); err != nil || got != want {
		t.Errorf("newest = %v, %v; want %v", got, err, want)
	}
	for _, c := range []struct {
		all  []jdk
		want string
	}{
		{nil, "no Java found"},
		{[]jdk{{"/d", 0}}, "no Java found"},
		{[]jdk{{"/old", 11}, {"/older", 8}}, "the newest Java found is 11 at /old, too old"},
	} {
		if _, err := newest(c.all); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("newest(%v) says %v, want %q", c.all, err, c.want)
		}
	}
}

func TestFindSaysWhatToInstall(t *testing.T) {
	defer func(saved []string) { jvmGlobs = saved }(jvmGlobs)
	jvmGlobs = []string{filepath.Join(t.TempDir(), "*")}
	t.Setenv("PATH", t.TempDir())
	t.Setenv("JAVA_HOME", "")
	err := Find(t.Context())
	if !errors.Is(err, ErrNotInstalled) {
		t.Fatalf("without Java and Maven: %v, want ErrNotInstalled", err)
	}
	for _, want := range []string{"no Java found", "no Maven found", "default-jre-headless", "maven", "JDK >= 17"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}

	home := t.TempDir()
	writeProgram(t, filepath.Join(home, "bin", "java"), "exit 1")
	writeProgram(t, filepath.Join(home, "bin", "mvn"), "exit 1")
	if err := os.WriteFile(filepath.Join(home, "release"), []byte("JAVA_VERSION=\"21.0.4\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("JAVA_HOME", home)
	if err := Find(t.Context()); err == nil || strings.Contains(err.Error(), "no Java") || !strings.Contains(err.Error(), "no Maven") {
		t.Errorf("with Java and without Maven: %v, want only Maven to be missing", err)
	}
	t.Setenv("PATH", filepath.Join(home, "bin"))
	if err := Find(t.Context()); err != nil {
		t.Errorf("with Java and Maven: %v, want nil", err)
	}
}

func TestJavaWithoutReleaseFileIsAsked(t *testing.T) {
	java := filepath.Join(t.TempDir(), "bin", "java")
	writeProgram(t, java, `echo 'openjdk version "19.0.2" 2023-01-17' >&2`)
	if got := javaMajor(t.Context(), java); got != 19 {
		t.Errorf("javaMajor = %d, want 19", got)
	}
}

// writeProgram writes a shell script.
func writeProgram(t *testing.T, path, body string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}
