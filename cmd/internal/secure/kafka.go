package secure

import (
	"bytes"
	"crypto/tls"
	"errors"
	"strings"

	"github.com/iqgate/iqgate/certs"
	"github.com/iqgate/iqgate/cmd/internal/config"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/reload"
)

// Kafka are the settings of the links to Kafka, each named by its flag. The zero value is plaintext without authentication.
type Kafka struct {
	TLS           bool   // --kafka-tls
	CA, Cert, Key string // --kafka-tls-ca, --kafka-tls-cert, --kafka-tls-key
	ServerName    string // --kafka-tls-server-name
	Mechanism     string // --kafka-sasl
	User          string // --kafka-user
	PasswordFile  string // --kafka-password-file
	Password      Secret // of the environment
	TokenFile     string // --kafka-token-file
}

// Settings declares the settings, the same for each program.
func (k *Kafka) Settings() []config.Setting {
	return []config.Setting{
		config.Switch("kafka-tls", "", &k.TLS, "connect to Kafka by TLS"),
		config.File("kafka-tls-ca", "", &k.CA, "authorities that sign the brokers' certificates, PEM, if not the system's; means kafka-tls"),
		config.File("kafka-tls-cert", "", &k.Cert, "client certificate to show to brokers, PEM; means kafka-tls").Must("given with kafka-tls-key"),
		config.File("kafka-tls-key", "", &k.Key, "private key of that certificate, PEM"),
		config.Text("kafka-tls-server-name", "", "NAME", "", &k.ServerName, "name that the brokers' certificates must have, if not their host's"),
		config.Choice("kafka-sasl", "Mechanism", "MECHANISM", "", mechanisms(), func(word string) error {
			k.Mechanism = word
			return nil
		}, "how to authenticate to Kafka: plain, scram-sha-256, scram-sha-512 or oauthbearer"),
		config.Text("kafka-user", "User", "NAME", "", &k.User, "user for plain and scram").Must("given with kafka-sasl"),
		config.File("kafka-password-file", "", &k.PasswordFile, "the user's password; read again at each authentication"),
		config.Secret("kafka-password", &k.Password, "the user's password"),
		config.File("kafka-token-file", "", &k.TokenFile, "token for oauthbearer; read again at each authentication"),
	}
}

// mechanisms are the words for kafka.Mechanisms.
func mechanisms() []string {
	var words []string
	for _, name := range kafka.Mechanisms {
		words = append(words, strings.ToLower(name))
	}
	return words
}

// Check says which settings do not go together. It reads no file.
func (k Kafka) Check() error {
	var errs []error
	if !k.withTLS() && (k.Key != "" || k.ServerName != "") {
		errs = append(errs, errors.New("--kafka-tls-key and --kafka-tls-server-name need --kafka-tls"))
	}
	if (k.Cert == "") != (k.Key == "") && k.withTLS() {
		errs = append(errs, errors.New("--kafka-tls-cert and --kafka-tls-key need each other"))
	}
	s := kafka.Security{Mechanism: strings.ToUpper(k.Mechanism), User: k.User, Secret: func() (string, error) { return "", nil }}
	return errors.Join(append(errs, k.checkSecret(s.Mechanism), s.Validate())...)
}

func (k Kafka) withTLS() bool { return k.TLS || k.CA != "" || k.Cert != "" }

// checkSecret says whether there is the one secret that a mechanism takes.
func (k Kafka) checkSecret(mechanism string) error {
	given := 0
	for _, is := range []bool{k.PasswordFile != "", k.Password != "", k.TokenFile != ""} {
		if is {
			given++
		}
	}
	switch {
	case mechanism == "" && given > 0:
		return errors.New("a password or token for Kafka needs --kafka-sasl")
	case mechanism != "" && (given != 1 || (mechanism == kafka.OAuthBearer) != (k.TokenFile != "")):
		return errors.New("--kafka-sasl needs --kafka-password-file, or the password in the environment, for plain and scram-*, and --kafka-token-file for oauthbearer")
	}
	return nil
}

// A Secret is a text that prints as nothing of itself.
type Secret string

// String hides the secret.
func (s Secret) String() string { return "(secret)" }

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return "(secret)" }

// Load makes what the node's clients use. The identity, which is nil without TLS, has the certificates to keep with their files.
func (k Kafka) Load() (*kafka.Security, *certs.Identity, error) {
	if err := k.Check(); err != nil {
		return nil, nil, err
	}
	s := &kafka.Security{Mechanism: strings.ToUpper(k.Mechanism), User: k.User}
	var id *certs.Identity
	if k.withTLS() {
		var err error
		if id, err = certs.Load(certs.Config{CertFile: k.Cert, KeyFile: k.Key, CAFile: k.CA, ServerName: k.ServerName}); err != nil {
			return nil, nil, err
		}
		s.TLS = func() *tls.Config { return id.Client() }
	}
	secret, err := k.secret(s.Mechanism)
	if err != nil {
		return nil, nil, err
	}
	s.Secret = secret
	return s, id, s.Validate()
}

// secret is where the password or the token comes from. A file is read at each authentication.
func (k Kafka) secret(mechanism string) (func() (string, error), error) {
	switch {
	case mechanism == "":
		return nil, nil //nolint:nilnil // there is none
	case k.Password != "":
		return func() (string, error) { return string(k.Password), nil }, nil
	}
	path := k.PasswordFile + k.TokenFile
	read := func() (string, error) {
		text, err := reload.Read(path)
		if err != nil {
			return "", err
		}
		if text = bytes.TrimRight(text, "\r\n"); len(text) == 0 {
			return "", errors.New(path + " is empty")
		}
		return string(text), nil
	}
	if _, err := read(); err != nil { // a wrong name is told at the start
		return nil, err
	}
	return read, nil
}
