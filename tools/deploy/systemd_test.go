package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A unit maps section/key to the values given, in order.
type unit map[string][]string

func readUnit(t *testing.T, name string) unit {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "deploy", "systemd", name))
	if err != nil {
		t.Fatal(err)
	}
	u, section := unit{}, ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		switch key, value, ok := strings.Cut(line, "="); {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		case ok:
			u[section+"/"+key] = append(u[section+"/"+key], value)
		default:
			t.Errorf("%s: %q is no assignment", name, line)
		}
	}
	return u
}

// readEnv reads a file for EnvironmentFile=; with what is commented out, where all is asked for.
func readEnv(t *testing.T, name string, all bool) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "deploy", "systemd", name))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if all && strings.HasPrefix(line, "# IQ") {
			line = line[2:]
		}
		if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			env[key] = value
		}
	}
	return env
}

var units = map[string]string{"iqnode@.service": "iqnode", "iqrouter.service": "iqrouter"}

// analyze runs systemd-analyze. CI installs it; where it is missing, only what needs it is left out.
func analyze(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("systemd-analyze is missing: apt-get install systemd")
		}
		t.Skip("systemd-analyze is missing, so systemd did not verify the units: apt-get install systemd")
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	return string(out), err
}

// TestSystemdVerifiesTheUnits with the programs where they were built, since systemd looks whether they are there.
func TestSystemdVerifiesTheUnits(t *testing.T) {
	dir := t.TempDir()
	for name, program := range units {
		data, err := os.ReadFile(filepath.Join(root, "deploy", "systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), "/usr/bin/"+program, filepath.Join(bin, program))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"iqnode@node-1.service", "iqrouter.service"} {
		if out, err := analyze(t, "verify", "--man=no", filepath.Join(dir, name)); err != nil || strings.Contains(out, dir) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	// The verification can fail.
	text := "[Service]\nType=sometimes\nExecStart=/nowhere/iqnode\n"
	if err := os.WriteFile(filepath.Join(dir, "bad.service"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := analyze(t, "verify", "--man=no", filepath.Join(dir, "bad.service")); err == nil {
		t.Errorf("a bad unit was accepted:\n%s", out)
	}
}

// TestUnitsAreExposedLittle by systemd's own score, from 0 to 10: both are "OK" in its words, which no default unit is.
func TestUnitsAreExposedLittle(t *testing.T) {
	for name := range units {
		path := filepath.Join(root, "deploy", "systemd", name)
		if out, err := analyze(t, "security", "--no-pager", "--offline=true", "--threshold=20", path); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

var (
	exitCodes = regexp.MustCompile(`(?m)^exit codes: (.*)$`)
	exitCode  = regexp.MustCompile(`(\d+) ([^,]+)`)
)

// TestUnitsStartAgainOnErrorsAlone: of the exit codes that the program names, 1 is an error; what they say of the others tells
// that starting again does not help.
func TestUnitsStartAgainOnErrorsAlone(t *testing.T) {
	for name, program := range units {
		u := readUnit(t, name)
		m := exitCodes.FindStringSubmatch(help(t, program))
		if m == nil {
			t.Fatalf("%s --help names no exit codes", program)
		}
		var final []string
		for _, code := range exitCode.FindAllStringSubmatch(m[1], -1) {
			if code[1] != "0" && code[1] != "1" {
				final = append(final, code[1])
			}
		}
		if got := u["Service/RestartPreventExitStatus"]; len(final) == 0 || !slices.Equal(got, []string{strings.Join(final, " ")}) {
			t.Errorf("%s: RestartPreventExitStatus=%v, want %v of %q", name, got, final, m[0])
		}
		if !slices.Equal(u["Service/Restart"], []string{"on-failure"}) || !slices.Equal(u["Unit/StartLimitIntervalSec"], []string{"0"}) {
			t.Errorf("%s must start again on failures, however often: %v", name, u)
		}
	}
}

func TestUnitsWaitUntilTheProgramHasStopped(t *testing.T) {
	for name, program := range units {
		u := readUnit(t, name)
		stop := stopTime(t, program, readEnv(t, program+".env", false))
		if given := u["Service/TimeoutStopSec"]; len(given) != 1 || seconds(t, given[0]) < stop+5*time.Second {
			t.Errorf("%s: TimeoutStopSec=%v, stopping may take %v", name, given, stop)
		}
	}
}

// TestProgramsAcceptTheUnitsSettings, those that are commented out too, as far as they name no file that must be there.
func TestProgramsAcceptTheUnitsSettings(t *testing.T) {
	known := variables(t)
	for name, program := range units {
		u := readUnit(t, name)
		env := readEnv(t, program+".env", false)
		for _, line := range u["Service/Environment"] {
			key, value, _ := strings.Cut(line, "=")
			env[key] = strings.NewReplacer("%i", "node-1", "%S", "/var/lib").Replace(value)
		}
		if state, ok := env["IQNODE_STATE_DIR"]; ok && state != "/var/lib/"+strings.ReplaceAll(u["Service/StateDirectory"][0], "%i", "node-1") {
			t.Errorf("%s: the state is in %s, which systemd does not make: %v", name, state, u["Service/StateDirectory"])
		}
		for key := range readEnv(t, program+".env", true) {
			if !known[key] {
				t.Errorf("%s.env: %s is no setting", program, key)
			}
		}
		if program == "iqrouter" {
			acceptsRouter(t, env)
			continue
		}
		topology, err := os.ReadFile(filepath.Join(root, "topology", "testdata", "flights.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		acceptsNode(t, env, map[string]string{"/etc/iqgate/topology.yaml": string(topology)})
	}
}

func TestUnitsHaveTheirUser(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "deploy", "systemd", "iqgate.sysusers"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range units {
		u := readUnit(t, name)
		if len(u["Service/User"]) != 1 || !strings.Contains(string(data), "\nu "+u["Service/User"][0]+" ") {
			t.Errorf("%s runs as %v, which iqgate.sysusers does not make", name, u["Service/User"])
		}
	}
}
