package main

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/iqgate/iqgate/certs"
	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/cmd/internal/config"
	"github.com/iqgate/iqgate/cmd/internal/secure"
)

// links are the settings about TLS and who asks.
type links struct {
	tls                       bool
	ca, cert, key, serverName string
	tokenFile                 string
	token                     secure.Secret
}

func (l *links) settings() []config.Setting {
	return []config.Setting{
		config.Switch("tls", "", &l.tls, "connect by TLS, with the system's authorities unless tls-ca names others"),
		config.File("tls-ca", "", &l.ca, "authorities that sign the servers' certificates, PEM; means tls"),
		config.File("tls-cert", "", &l.cert, "client certificate, PEM; means tls"),
		config.File("tls-key", "", &l.key, "key of the certificate, PEM"),
		config.Text("tls-server-name", "", "NAME", "", &l.serverName, "name that the servers' certificates must have, if not their host's"),
		config.File("token-file", "", &l.tokenFile, "bearer token"),
		config.Secret("token", &l.token, "bearer token"),
	}
}

func (l *links) files() certs.Config {
	return certs.Config{CertFile: l.cert, KeyFile: l.key, CAFile: l.ca, ServerName: l.serverName}
}

func (l *links) withTLS() bool { return l.tls || l.files() != (certs.Config{}) }

// check says which settings do not go together.
func (l *links) check() error {
	if !l.withTLS() && (l.tokenFile != "" || l.token != "") {
		return errors.New("a token is shown by TLS only: give --tls or --tls-ca")
	}
	return nil
}

// options make the client show and check what the settings say.
func (l *links) options() ([]client.Option, error) {
	var opts []client.Option
	if l.withTLS() {
		id, err := certs.Load(l.files())
		if err != nil {
			return nil, usagef("TLS: %w", err)
		}
		opts = append(opts, client.WithDialOptions(grpc.WithTransportCredentials(id.Credentials())))
	}
	switch {
	case l.tokenFile != "":
		opts = append(opts, client.WithTokenFile(l.tokenFile))
	case l.token != "":
		opts = append(opts, client.WithToken(func(context.Context) (string, error) { return string(l.token), nil }))
	}
	return opts, nil
}
