package main

import (
	"flag"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/spf13/cobra"
)

const docFile = "../../docs/iqctl.md"

func readDoc(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(docFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// consoleFence begins a part of the document with command lines and what they print.
const consoleFence = "```console\n"

// TestTheDocumentShowsWhatIsPrinted runs each command line of docs/iqctl.md and compares what the document shows with what is
// printed. With -rewrite the document is written anew.
func TestTheDocumentShowsWhatIsPrinted(t *testing.T) {
	text := readDoc(t)
	kafka := kafkaEnv(ordersKafka(t))
	parts := strings.Split(text, consoleFence)
	for i, part := range parts[1:] {
		block, rest, ok := strings.Cut(part, "```\n")
		if !ok {
			t.Fatalf("a part does not end: %s", part)
		}
		var is strings.Builder
		for line := range strings.Lines(block) {
			if call, ok := strings.CutPrefix(line, "$ iqctl "); ok {
				is.WriteString(line + printed(t, strings.Fields(call), kafka))
			}
		}
		if is.String() != block && flag.Lookup("rewrite").Value.String() != "true" {
			t.Errorf("%s shows\n%s\nbut printed is\n%s", docFile, block, is.String())
		}
		parts[i+1] = is.String() + "```\n" + rest
	}
	if now := strings.Join(parts, consoleFence); now != text && !t.Failed() {
		if err := os.WriteFile(docFile, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// printed is what a command prints, and its exit code where that is not 0. What asks no Kafka runs in a bubble, where times are
// always the same.
func printed(t *testing.T, args []string, kafka map[string]string) (text string) {
	t.Helper()
	run := func(t *testing.T) {
		t.Helper()
		env := map[string]string{routerEnv: inMemory}
		if args[0] == "import-check" {
			env = kafka
		}
		stdout, stderr, code := runInMemory(t, args, env)
		text = strings.ReplaceAll(stdout+stderr, inMemory, "router-1:7000")
		if code != exitOK {
			text += "$ echo $?\n" + string(rune('0'+code)) + "\n"
		}
	}
	if args[0] == "import-check" {
		run(t)
	} else {
		synctest.Test(t, run)
	}
	return text
}

// TestTheDocumentShowsEachCommand, and no other.
func TestTheDocumentShowsEachCommand(t *testing.T) {
	text := readDoc(t)
	a := &app{}
	a.declare()
	root := newRootCommand(a)
	root.InitDefaultCompletionCmd()
	var commands func(cmd *cobra.Command)
	commands = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			commands(sub)
		}
		if !cmd.Hidden && cmd.Runnable() && !cmd.HasSubCommands() && !strings.Contains(text, "\n$ "+cmd.CommandPath()) {
			t.Errorf("%s does not show %s", docFile, cmd.CommandPath())
		}
	}
	commands(root)
	for line := range strings.Lines(text) {
		if call, ok := strings.CutPrefix(line, "$ iqctl "); ok {
			if cmd, _, err := root.Find(strings.Fields(call)); err != nil || cmd == root {
				t.Errorf("%s shows what is no command: %s", docFile, line)
			}
		}
	}
}
