package main

import (
	"errors"
	"testing"
)

func TestMissingKafkaIsAFailureOnlyWhereRequired(t *testing.T) {
	missing := errors.New("no Java found")
	if code := report(missing, false); code != 0 {
		t.Errorf("not required: exit code %d, want 0", code)
	}
	if code := report(missing, true); code != 1 {
		t.Errorf("required: exit code %d, want 1", code)
	}
}

func TestCommandsExitCodeIsPassedOn(t *testing.T) {
	for _, c := range []struct {
		script string
		want   int
	}{{"exit 0", 0}, {"exit 3", 3}, {"kill -9 $$", 1}} {
		if code := run("sh", []string{"-c", c.script}); code != c.want {
			t.Errorf("sh -c %q: exit code %d, want %d", c.script, code, c.want)
		}
	}
	if code := run("/no/such/program", nil); code != 1 {
		t.Errorf("a program that is not there: exit code %d, want 1", code)
	}
}
