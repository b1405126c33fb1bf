package secure

import (
	"errors"
	"log/slog"

	"github.com/iqgate/iqgate/auth"
	"github.com/iqgate/iqgate/certs"
	"github.com/iqgate/iqgate/cmd/internal/config"
)

// Files are the settings of a server about its own links, each named by its flag. The zero value is plaintext.
type Files struct {
	Cert, Key, CA string // --tls-cert, --tls-key, --tls-ca
	ServerName    string // --tls-server-name
	RequireClient bool   // --tls-require-client
	Token         string // --token-file
	Rules, Keys   string // --auth-rules, --auth-keys
}

// Settings declares the settings, the same for each program.
func (f *Files) Settings() []config.Setting {
	return []config.Setting{
		config.File("tls-cert", "", &f.Cert, "certificate of this process, PEM, for TLS on all of its links; read again when it changes, as all of these files"),
		config.File("tls-key", "", &f.Key, "private key of the certificate, PEM"),
		config.File("tls-ca", "", &f.CA, "authorities that sign the certificates of servers that are dialled and of clients that call, PEM"),
		config.Text("tls-server-name", "", "NAME", "", &f.ServerName, "name that the certificates of servers that are dialled must have, if not their host's"),
		config.Switch("tls-require-client", "", &f.RequireClient, "refuse whoever shows no trusted client certificate, already in the handshake"),
		config.File("token-file", "", &f.Token, "bearer token to show to others, if not the certificate says who this is"),
		config.File("auth-rules", "", &f.Rules, "who may do what, YAML; everything else is refused from then on").Must("given with tls-cert and tls-key"),
		config.File("auth-keys", "", &f.Keys, "keys that sign the bearer tokens of callers, a JWK set").Must("given with auth-rules"),
	}
}

// Check says which settings do not go together. It reads no file.
func (f Files) Check() error {
	var errs []error
	if f != (Files{}) && (f.Cert == "" || f.Key == "") {
		errs = append(errs, errors.New("TLS needs --tls-cert and --tls-key; without them no other setting of TLS or of who may do what has a meaning"))
	}
	if f.Keys != "" && f.Rules == "" {
		errs = append(errs, errors.New("--auth-keys needs --auth-rules"))
	}
	return errors.Join(errs...)
}

// Load reads the files. It is nil, plaintext, when none is named.
func (f Files) Load(log *slog.Logger) (*auth.Security, error) {
	if f == (Files{}) {
		return nil, nil //nolint:nilnil // no security is an answer, see auth.Security
	}
	if err := f.Check(); err != nil {
		return nil, err
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
