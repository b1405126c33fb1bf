package secure

import (
	"errors"
	"log/slog"

	"github.com/iqgate/iqgate/auth"
	"github.com/iqgate/iqgate/certs"
)

// Files are the settings of a server about its own links, each named by its flag. The zero value is plaintext.
type Files struct {
	Cert, Key, CA string // --tls-cert, --tls-key, --tls-ca
	ServerName    string // --tls-server-name
	RequireClient bool   // --tls-require-client
	Token         string // --token-file
	Rules, Keys   string // --auth-rules, --auth-keys
}

// Help texts of the settings, the same for each program.
const (
	CertHelp          = "certificate of this process, PEM, for TLS on all of its links; read again when it changes, as all of these files"
	KeyHelp           = "private key of the certificate, PEM"
	CAHelp            = "authorities that sign the certificates of servers that are dialled and of clients that call, PEM"
	ServerNameHelp    = "name that the certificates of servers that are dialled must have, if not their host's"
	RequireClientHelp = "refuse whoever shows no trusted client certificate, already in the handshake"
	TokenHelp         = "bearer token to show to others, if not the certificate says who this is"
	RulesHelp         = "who may do what, YAML; everything else is refused from then on"
	KeysHelp          = "keys that sign the bearer tokens of callers, a JWK set"
)

// Load reads the files. It is nil, plaintext, when none is named.
func (f Files) Load(log *slog.Logger) (*auth.Security, error) {
	if f == (Files{}) {
		return nil, nil //nolint:nilnil // no security is an answer, see auth.Security
	}
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("TLS needs --tls-cert and --tls-key; without them no other setting of TLS or of who may do what has a meaning")
	}
	if f.Keys != "" && f.Rules == "" {
		return nil, errors.New("--auth-keys needs --auth-rules")
	}
	id, err := certs.Load(certs.Config{CertFile: f.Cert, KeyFile: f.Key, CAFile: f.CA, ServerName: f.ServerName})
	if err != nil {
		return nil, err
	}
	s := &auth.Security{Identity: id, RequireCertificate: f.RequireClient, TokenFile: f.Token}
	if f.Rules != "" {
		if s.Guard, err = auth.NewGuard(auth.GuardConfig{Rules: f.Rules, Keys: f.Keys, Identity: id, Log: log}); err != nil {
			return nil, err
		}
	}
	return s, s.Validate()
}
