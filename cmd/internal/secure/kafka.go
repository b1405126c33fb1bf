package secure

import (
	"bytes"
	"crypto/tls"
	"errors"
	"strings"

	"github.com/iqgate/iqgate/certs"
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

// A Secret is a text that prints as nothing of itself.
type Secret string

// String hides the secret.
func (s Secret) String() string { return "(secret)" }

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return "(secret)" }

// Load makes what the node's clients use. The identity, which is nil without TLS, has the certificates to keep with their files.
func (k Kafka) Load() (*kafka.Security, *certs.Identity, error) {
	s := &kafka.Security{Mechanism: strings.ToUpper(k.Mechanism), User: k.User}
	var id *certs.Identity
	if k.TLS || k.CA != "" || k.Cert != "" {
		var err error
		if id, err = certs.Load(certs.Config{CertFile: k.Cert, KeyFile: k.Key, CAFile: k.CA, ServerName: k.ServerName}); err != nil {
			return nil, nil, err
		}
		s.TLS = func() *tls.Config { return id.Client() }
	} else if k.Key != "" || k.ServerName != "" {
		return nil, nil, errors.New("--kafka-tls-key and --kafka-tls-server-name need --kafka-tls")
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
	given := 0
	for _, is := range []bool{k.PasswordFile != "", k.Password != "", k.TokenFile != ""} {
		if is {
			given++
		}
	}
	switch {
	case mechanism == "" && given > 0:
		return nil, errors.New("a password or token for Kafka needs --kafka-sasl")
	case mechanism == "":
		return nil, nil //nolint:nilnil // there is none
	case given != 1 || (mechanism == kafka.OAuthBearer) != (k.TokenFile != ""):
		return nil, errors.New("--kafka-sasl needs --kafka-password-file, or the password in the environment, for plain and scram-*, and --kafka-token-file for oauthbearer")
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
