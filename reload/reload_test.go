package reload

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pair makes a value of two files that must be equal, as a certificate and its key must fit.
func pair(contents [][]byte) (*string, error) {
	if !bytes.Equal(contents[0], contents[1]) {
		return nil, errors.New("the two do not fit")
	}
	s := string(contents[0])
	return &s, nil
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAnEditionStaysUntilTheFilesMakeAnother(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, a, "one")
	write(t, b, "one")
	v, err := New("pair", []string{a, b}, pair)
	if err != nil {
		t.Fatal(err)
	}
	first := v.Load()
	check := func(wantChanged bool, wantErr, want string) {
		t.Helper()
		changed, err := v.Check()
		if changed != wantChanged || (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) || *v.Load() != want {
			t.Errorf("changed %t, error %v, value %q; want %t, %q, %q", changed, err, *v.Load(), wantChanged, wantErr, want)
		}
	}
	check(false, "", "one")
	if v.Load() != first {
		t.Error("the same bytes made another edition")
	}
	write(t, a, "two") // half of a change
	check(false, "do not fit", "one")
	check(false, "do not fit", "one") // and it is still wrong
	write(t, b, "two")
	check(true, "", "two")
	write(t, a, strings.Repeat("x", MaxBytes+1))
	check(false, "more than", "two")
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	check(false, "no such file", "two")
}

func TestBytesThatMoveFromOneFileToAnotherAreAChange(t *testing.T) {
	if digest([][]byte{[]byte("ab"), []byte("c")}) == digest([][]byte{[]byte("a"), []byte("bc")}) {
		t.Error("told apart by the joined bytes alone")
	}
}

func TestNewFailsWithoutTheFiles(t *testing.T) {
	if _, err := New("pair", []string{"/nowhere/a", "/nowhere/b"}, pair); err == nil || !strings.Contains(err.Error(), "pair: open /nowhere/a") {
		t.Errorf("got %v", err)
	}
}

// TestFollowSaysEachCauseOnce looks at broken files many times, and at mended ones.
func TestFollowSaysEachCauseOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		write(t, a, "one")
		write(t, b, "one")
		v, err := New("pair", []string{a, b}, pair)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Follow(ctx, time.Second, slog.New(slog.NewTextHandler(&out, nil)), v) }()
		time.Sleep(1500 * time.Millisecond)
		write(t, a, "two")
		time.Sleep(10 * time.Second)
		write(t, b, "two")
		time.Sleep(10 * time.Second)
		write(t, a, "three")
		time.Sleep(10 * time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := strings.Count(out.String(), "level=ERROR"); got != 2 {
			t.Errorf("%d errors, want one for each time that the files broke:\n%s", got, out.String())
		}
		if got := strings.Count(out.String(), "changed files are taken"); got != 1 || *v.Load() != "two" {
			t.Errorf("taken %d times, value %q", got, *v.Load())
		}
	})
}
