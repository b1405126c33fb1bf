package javaapp

import (
	"os"
	"strings"
	"testing"
)

// What docs/java.md shows is what runs.
func TestDocumentShowsTheClassesThatRun(t *testing.T) {
	doc, err := os.ReadFile("../../docs/java.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"IqQuery", "IqHeartbeats"} {
		text, err := sources.ReadFile("src/main/java/javaapp/" + name + ".java")
		if err != nil {
			t.Fatal(err)
		}
		_, body, found := strings.Cut(string(text), "\n/** ")
		if !found || !strings.Contains(string(doc), "/** "+strings.TrimSpace(body)) {
			t.Errorf("docs/java.md does not have %s.java as it is", name)
		}
	}
}
