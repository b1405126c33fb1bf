package deploy

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const root = "../.."

// bin is the folder of the programs, built once for all tests.
var bin string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "iqgate-deploy-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		bin = dir
		build := exec.Command("go", "build", "-o", dir+"/", "./cmd/iqnode", "./cmd/iqrouter", "./cmd/iqctl")
		build.Dir = root
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build the programs:", err)
			return 1
		}
		return m.Run()
	}())
}

// help is what a program says of itself.
func help(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(bin, program), append(args, "--help")...).Output()
	if err != nil {
		t.Fatalf("%s %v --help: %v", program, args, err)
	}
	return string(out)
}

var flagInHelp = regexp.MustCompile(`(?m)^\s+(?:-\w, )?--([a-z][a-z0-9-]*)`)

// flags are the flags of a program, without their dashes.
func flags(t *testing.T, program string, args ...string) map[string]bool {
	t.Helper()
	all := map[string]bool{"help": true}
	for _, m := range flagInHelp.FindAllStringSubmatch(help(t, program, args...), -1) {
		all[m[1]] = true
	}
	if len(all) < 8 {
		t.Fatalf("%s --help names %d flags", program, len(all))
	}
	return all
}

var (
	variableName = regexp.MustCompile(`\bIQ(?:NODE|ROUTER|CTL)_[A-Z0-9_]*[A-Z0-9]\b`)
	flagName     = regexp.MustCompile(`(?:^|\s)--([a-z][a-z0-9-]*)`)
)

// variables are the environment variables that are settings of the programs.
func variables(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, program := range []string{"iqnode", "iqrouter", "iqctl"} {
		for name := range flags(t, program) {
			if program != "iqctl" { // whose help names each variable of its own
				all[strings.ToUpper(program)+"_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] = true
			}
		}
		for _, name := range variableName.FindAllString(help(t, program), -1) {
			all[name] = true
		}
	}
	return all
}

// shipped are the text files of deploy/, and the Dockerfile.
func shipped(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	read := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = string(text)
	}
	read(filepath.Join(root, "Dockerfile"))
	err := filepath.WalkDir(filepath.Join(root, "deploy"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".go") {
			read(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestEverySettingThatIsNamedExists(t *testing.T) {
	known := variables(t)
	program := map[string]map[string]bool{"iqnode": flags(t, "iqnode"), "iqrouter": flags(t, "iqrouter")}
	named := 0
	for path, text := range shipped(t) {
		for line := range strings.Lines(text) {
			for _, name := range variableName.FindAllString(line, -1) {
				if named++; !known[name] {
					t.Errorf("%s: %s is no setting: %s", path, name, line)
				}
			}
			for name, flags := range program {
				_, args, ok := strings.Cut(line, name+" --")
				for _, m := range flagName.FindAllStringSubmatch("--"+args, -1) {
					if named++; ok && !flags[m[1]] {
						t.Errorf("%s: %s has no --%s: %s", path, name, m[1], line)
					}
				}
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d names found", named)
	}
}

var iqctlCall = regexp.MustCompile(`iqctl ((?:--?\S+ \S+ )*)([a-z]+)(.*)`)

func TestEveryCommandOfIqctlThatIsShownExists(t *testing.T) {
	calls := 0
	for path, text := range shipped(t) {
		for line := range strings.Lines(text) {
			m := iqctlCall.FindStringSubmatch(line)
			if m == nil || !strings.Contains(line, "iqctl --router") {
				continue
			}
			calls++
			known := flags(t, "iqctl", m[2])
			for _, f := range flagName.FindAllStringSubmatch(m[1]+m[3], -1) {
				if !known[f[1]] {
					t.Errorf("%s: iqctl %s has no --%s: %s", path, m[2], f[1], line)
				}
			}
		}
	}
	if calls == 0 {
		t.Error("no call found")
	}
}

// acceptsNode has iqnode check a configuration; files maps the paths that it names to their contents.
func acceptsNode(t *testing.T, env, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	var list []string
	for name, value := range env {
		if text, ok := files[value]; ok {
			value = filepath.Join(dir, strings.ReplaceAll(value, "/", "_"))
			if err := os.WriteFile(value, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		list = append(list, name+"="+value)
	}
	cmd := exec.Command(filepath.Join(bin, "iqnode"), "--print-config")
	cmd.Env = slices.Sorted(slices.Values(list))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("iqnode refuses the configuration: %v\n%s\n%s", err, out, strings.Join(cmd.Env, "\n"))
	}
}

// startupBound is how long a router may take to listen on a machine that is busy with other tests.
const startupBound = time.Minute

// acceptsRouter starts a router by a configuration, at a free port in place of its own, and ends it.
func acceptsRouter(t *testing.T, env map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startupBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "iqrouter"), "--listen", "127.0.0.1:0")
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil || !strings.Contains(line, "listening") || strings.Contains(said.String(), "is no setting") {
		t.Errorf("iqrouter refuses the configuration: %v, said %q\n%s\n%v", err, line, said.String(), cmd.Env)
	}
}

// seconds reads a duration that a setting has, or its default from the help of its program.
func seconds(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var defaultInHelp = regexp.MustCompile(`(?m)^\s+--([a-z-]+) .*\((?:default )?([0-9a-z]+)\)$`)

// defaultOf is the default of a setting, by the help of its program.
func defaultOf(t *testing.T, program, name string) string {
	t.Helper()
	for _, m := range defaultInHelp.FindAllStringSubmatch(help(t, program), -1) {
		if m[1] == name {
			return m[2]
		}
	}
	t.Fatalf("%s --help names no default of --%s", program, name)
	return ""
}

// stopTime is how long a program may take to stop, by its settings in env.
func stopTime(t *testing.T, program string, env map[string]string) time.Duration {
	t.Helper()
	names := map[string][]string{"iqnode": {"drain-timeout", "shutdown-timeout"}, "iqrouter": {"stop-timeout"}}[program]
	var sum time.Duration
	for _, name := range names {
		text, ok := env[strings.ToUpper(program)+"_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))]
		if !ok {
			text = defaultOf(t, program, name)
		}
		sum += seconds(t, text)
	}
	return sum
}
