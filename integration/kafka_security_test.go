//go:build kafka

package integration

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kslog"

	"github.com/iqgate/iqgate/auth/authtest"
	"github.com/iqgate/iqgate/certs"
	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/integration/kafkabroker"
	"github.com/iqgate/iqgate/integration/process"
	"github.com/iqgate/iqgate/kafka"
)

// Secrets of the test's broker.
const (
	kafkaPassword = "s3cret-of-alice"
	wrongPassword = "hunter2-is-wrong"
)

// secureBroker is a broker with listeners that ask for TLS and SASL.
type secureBroker struct {
	*kafkabroker.Broker
	dir string
	ca  *authtest.CA
}

// startSecureBroker starts a broker of the test's own: SECURE takes SASL by TLS, OPEN SASL without TLS, MUTUAL a client
// certificate.
func startSecureBroker(ctx context.Context, t *testing.T) *secureBroker {
	t.Helper()
	startBroker(ctx, t) // skips where there is no Kafka
	s := &secureBroker{dir: t.TempDir(), ca: authtest.NewCA(t, "kafka-ca")}
	pair := s.ca.Issue(t, authtest.Holder{CN: "broker", DNS: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}})
	keystore := authtest.WriteFile(t, s.dir, "keystore.pem", slices.Concat(pair.Key, pair.Cert))
	truststore := authtest.WriteFile(t, s.dir, "ca.pem", s.ca.PEM)
	properties := map[string]string{
		"ssl.keystore.type": "PEM", "ssl.keystore.location": keystore, "ssl.truststore.type": "PEM", "ssl.truststore.location": truststore,
		"listener.name.mutual.ssl.client.auth": "required",
	}
	for _, l := range []string{"listener.name.secure.", "listener.name.open."} {
		properties[l+"sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
		properties[l+"plain.sasl.jaas.config"] = `org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="` + kafkaPassword + `";`
		properties[l+"scram-sha-256.sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		properties[l+"scram-sha-512.sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		properties[l+"oauthbearer.sasl.jaas.config"] = `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`
	}
	b, err := kafkabroker.Start(ctx, kafkabroker.Options{
		Dir: filepath.Join(s.dir, "kafka"), Properties: properties,
		Listeners: map[string]string{"SECURE": "SASL_SSL", "OPEN": "SASL_PLAINTEXT", "MUTUAL": "SSL"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Kill)
	s.Broker = b
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, m := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		res, err := kadm.NewClient(cl).AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{User: "alice", Mechanism: m, Iterations: 4096, Password: kafkaPassword}})
		if err == nil {
			err = res.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// tls is a client's identity; a holder without a name shows no certificate.
func (s *secureBroker) tls(t *testing.T, ca *authtest.CA, h authtest.Holder) func() *tls.Config {
	t.Helper()
	dir := t.TempDir()
	c := certs.Config{CAFile: authtest.WriteFile(t, dir, "ca.pem", ca.PEM)}
	if h.CN != "" {
		c.CertFile, c.KeyFile = s.ca.Issue(t, h).Write(t, dir, "client")
	}
	id, err := certs.Load(c)
	if err != nil {
		t.Fatal(err)
	}
	return id.Client
}

func secretOf(text string) func() (string, error) { return func() (string, error) { return text, nil } }

// unsecured is a JWS without a signature, which the broker's default validator for tests takes.
func unsecured(t *testing.T, valid time.Duration) string {
	t.Helper()
	claims, err := json.Marshal(map[string]any{"sub": "alice", "iat": time.Now().Add(-time.Minute).Unix(), "exp": time.Now().Add(valid).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(claims) + "."
}

// Each mechanism works with the right secret, by TLS and without; a wrong one gives an error that says so, and the secret is
// in no error and no log, the client library's debug log included.
func TestKafkaTLSAndSASL(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), kafkaTestTimeout)
	defer cancel()
	b := startSecureBroker(ctx, t)
	trusted := b.tls(t, b.ca, authtest.Holder{})
	goodToken, oldToken := unsecured(t, time.Hour), unsecured(t, -time.Second)
	for _, c := range []struct {
		name, listener string
		security       kafka.Security
		secret, want   string // of the error; empty for none
	}{
		{"PLAIN", "SECURE", kafka.Security{TLS: trusted, Mechanism: kafka.Plain, User: "alice"}, kafkaPassword, ""},
		{"SCRAM-SHA-256", "SECURE", kafka.Security{TLS: trusted, Mechanism: kafka.ScramSHA256, User: "alice"}, kafkaPassword, ""},
		{"SCRAM-SHA-512", "SECURE", kafka.Security{TLS: trusted, Mechanism: kafka.ScramSHA512, User: "alice"}, kafkaPassword, ""},
		{"OAUTHBEARER", "SECURE", kafka.Security{TLS: trusted, Mechanism: kafka.OAuthBearer}, goodToken, ""},
		{"PLAIN without TLS", "OPEN", kafka.Security{Mechanism: kafka.Plain, User: "alice"}, kafkaPassword, ""},
		{"SCRAM-SHA-512 without TLS", "OPEN", kafka.Security{Mechanism: kafka.ScramSHA512, User: "alice"}, kafkaPassword, ""},
		{"a client certificate", "MUTUAL", kafka.Security{TLS: b.tls(t, b.ca, authtest.Holder{CN: "iqnode"})}, "", ""},

		{"PLAIN, wrong password", "SECURE", kafka.Security{TLS: trusted, Mechanism: kafka.Plain, User: "alice"}, wrongPassword, "SASL_AUTHENTICATION_FAILED"},
		{"SCRAM-SHA-256, wrong password", "SECURE", kafka.Security{TLS: trusted, Mechanism: kafka.ScramSHA256, User: "alice"}, wrongPassword, "SASL_AUTHENTICATION_FAILED"},
		{"SCRAM-SHA-512, wrong password", "SECURE", kafka.Security{TLS: trusted, Mechanism: kafka.ScramSHA512, User: "alice"}, wrongPassword, "SASL_AUTHENTICATION_FAILED"},
		{"SCRAM-SHA-512, unknown user", "SECURE", kafka.Security{TLS: trusted, Mechanism: kafka.ScramSHA512, User: "mallory"}, kafkaPassword, "SASL_AUTHENTICATION_FAILED"},
		{"OAUTHBEARER, expired token", "SECURE", kafka.Security{TLS: trusted, Mechanism: kafka.OAuthBearer}, oldToken, "SASL_AUTHENTICATION_FAILED"},
		{"an authority that is not trusted", "SECURE", kafka.Security{TLS: b.tls(t, authtest.NewCA(t, "other"), authtest.Holder{}), Mechanism: kafka.Plain, User: "alice"}, kafkaPassword, "x509: certificate signed by unknown authority"},
		{"no client certificate", "MUTUAL", kafka.Security{TLS: trusted}, "", "tls: certificate required"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.secret != "" {
				c.security.Secret = secretOf(c.secret)
			}
			if err := c.security.Validate(); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			opts := append(c.security.Options(), kgo.RequestRetries(0), kgo.WithLogger(kslog.New(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))))
			cl, err := kgo.NewClient(kafka.Options([]string{b.AddrOf(c.listener)}, "test", opts...)...)
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			pingCtx, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			err = cl.Ping(pingCtx)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err != nil {
				t.Log(err)
			}
			for _, secret := range []string{kafkaPassword, wrongPassword, goodToken, oldToken} {
				if strings.Contains(fmt.Sprint(err)+log.String(), secret) {
					t.Errorf("the secret is in the error or the log: %v", err)
				}
			}
		})
	}
}

// A node does all of its work over TLS and SCRAM, with its password in a file; one with a wrong password says what is wrong,
// in words and without the password, and works as soon as the file has the right one.
func TestKafkaNodeWorksBySCRAMAndWaitsForARightPassword(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), kafkaTestTimeout)
	defer cancel()
	b := startSecureBroker(ctx, t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopics(ctx, 2, 1, nil, "APP-in", "APP-out"); err != nil {
		t.Fatal(err)
	}
	rec := &kgo.Record{Topic: "APP-in", Key: []byte("k"), Value: []byte("v")}
	if err := cl.ProduceSync(ctx, rec).FirstErr(); err != nil {
		t.Fatal(err)
	}
	address, err := process.Address()
	if err != nil {
		t.Fatal(err)
	}
	topology := authtest.WriteFile(t, b.dir, "topology.yaml", []byte(countYAML))
	password := authtest.WriteFile(t, b.dir, "password", []byte(wrongPassword+"\n"))
	log := filepath.Join(b.dir, "node.log")
	p, err := process.Start(process.Spec{
		Path: program(ctx, t, "iqnode"), Log: log, Args: []string{
			"--node-id", "a", "--topology", topology, "--state-dir", filepath.Join(b.dir, "state"), "--listen", address,
			"--brokers", b.AddrOf("SECURE"), "--kafka-tls-ca", filepath.Join(b.dir, "ca.pem"), "--kafka-sasl", "scram-sha-512",
			"--kafka-user", "alice", "--kafka-password-file", password, "--log-level", "debug",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	waitFor(ctx, t, "the log says what is wrong", func() error {
		text, err := p.Log()
		if err == nil && (!strings.Contains(text, "waiting for Kafka") || !strings.Contains(text, "SASL_AUTHENTICATION_FAILED")) {
			err = errors.New("it does not")
		}
		return err
	})
	if !p.Alive() {
		t.Fatalf("the node ended: %v", p.Err())
	}
	if err := os.WriteFile(password, []byte(kafkaPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := client.New([]string{address}, client.WithTimeout(askTimeout))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	waitFor(ctx, t, "a strong read finds the record", func() error {
		res, err := reader.Get(ctx, "counts", []byte("k"), client.Strong())
		if err == nil && !res.Found {
			err = errors.New("not found")
		}
		return err
	})
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	text, err := p.Log()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{kafkaPassword, wrongPassword} {
		if strings.Contains(text, secret) {
			t.Error("the password is in the node's log")
		}
	}
}

// waitFor asks again and again until f returns nil.
func waitFor(ctx context.Context, t *testing.T, what string, f func() error) {
	t.Helper()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(pollEvery):
		}
	}
}
