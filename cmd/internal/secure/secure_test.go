package secure

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSettingsThatDoNotGoTogetherAreAllNamed, before any file is read: the names here are of no files.
func TestSettingsThatDoNotGoTogetherAreAllNamed(t *testing.T) {
	for _, c := range []struct {
		name string
		is   interface{ Check() error }
		want []string // of each fault; none when all is well
	}{
		{"plaintext", Files{}, nil},
		{"TLS", Files{Cert: "c", Key: "k", CA: "a", RequireClient: true, Rules: "r", Keys: "j"}, nil},
		{"authorities alone", Files{CA: "a"}, []string{"--tls-cert and --tls-key"}},
		{"keys alone", Files{Keys: "j"}, []string{"--tls-cert and --tls-key", "--auth-keys needs --auth-rules"}},
		{"no Kafka settings", Kafka{}, nil},
		{"system's authorities", Kafka{TLS: true, ServerName: "n"}, nil},
		{"client certificate", Kafka{Cert: "c", Key: "k"}, nil},
		{"certificate without key", Kafka{Cert: "c"}, []string{"--kafka-tls-cert and --kafka-tls-key need each other"}},
		{"key without TLS", Kafka{Key: "k"}, []string{"need --kafka-tls"}},
		{"password file", Kafka{Mechanism: "scram-sha-256", User: "u", PasswordFile: "p"}, nil},
		{"password", Kafka{Mechanism: "plain", User: "u", Password: "p"}, nil},
		{"token", Kafka{Mechanism: "oauthbearer", TokenFile: "t"}, nil},
		{"two passwords", Kafka{Mechanism: "plain", User: "u", Password: "p", PasswordFile: "p"}, []string{"--kafka-sasl needs"}},
		{"token for plain", Kafka{Mechanism: "plain", User: "u", TokenFile: "t"}, []string{"--kafka-sasl needs"}},
		{"user for a token", Kafka{Mechanism: "oauthbearer", User: "u", TokenFile: "t"}, []string{`User "u": is not for OAUTHBEARER`}},
		{"nothing but a mechanism", Kafka{Mechanism: "plain"}, []string{"--kafka-sasl needs", `User "": is required for PLAIN`}},
		{"nothing but a password", Kafka{Password: "p"}, []string{"needs --kafka-sasl"}},
	} {
		err := c.is.Check()
		var faults []error
		var joined interface{ Unwrap() []error }
		if errors.As(err, &joined) {
			faults = joined.Unwrap()
		}
		text := fmt.Sprint(err)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %v does not name %s", c.name, err, want)
			}
		}
		if len(faults) != len(c.want) {
			t.Errorf("%s: %d faults, want %d: %v", c.name, len(faults), len(c.want), err)
		}
	}
}

// TestLoadRefusesWhatCheckDoes, and files that are not there, at the start.
func TestLoadRefusesWhatCheckDoes(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	if s, err := (Files{}).Load(log); s != nil || err != nil {
		t.Errorf("plaintext: %v, %v", s, err)
	}
	if _, err := (Files{CA: "a"}).Load(log); err == nil {
		t.Error("authorities without a certificate were loaded")
	}
	if _, err := (Files{Cert: "/nowhere/c.pem", Key: "/nowhere/k.pem"}).Load(log); err == nil || !strings.Contains(err.Error(), "/nowhere/c.pem") {
		t.Errorf("a certificate that is not there: %v", err)
	}
	if _, _, err := (Kafka{Mechanism: "plain", User: "u", PasswordFile: "/nowhere/p"}).Load(); err == nil || !strings.Contains(err.Error(), "/nowhere/p") {
		t.Errorf("a password that is not there: %v", err)
	}
}

// TestAPasswordIsReadAtEachAuthentication, without the line break at its end, and an empty file is none.
func TestAPasswordIsReadAtEachAuthentication(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\r\n")
	s, id, err := Kafka{Mechanism: "scram-sha-512", User: "u", PasswordFile: file}.Load()
	if err != nil || id != nil || s.Mechanism != "SCRAM-SHA-512" {
		t.Fatalf("%+v, %v, %v", s, id, err)
	}
	if got, err := s.Secret(); got != "first" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	write("second")
	if got, err := s.Secret(); got != "second" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	write("\n")
	if got, err := s.Secret(); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestASecretPrintsAsNothingOfItself, however it is printed.
func TestASecretPrintsAsNothingOfItself(t *testing.T) {
	k := Kafka{Password: "correct-horse"}
	for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%+v", k), fmt.Sprintf("%#v", k), k.Password.String(), fmt.Sprintf("%q", k.Password)} {
		if strings.Contains(text, "horse") {
			t.Errorf("printed: %s", text)
		}
	}
}
