package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/iqgate/iqgate/certs"
	"github.com/iqgate/iqgate/client"
)

// tokenEnv has a bearer token. There is no flag for one: every process of the machine can read a command line.
const tokenEnv = "IQCTL_TOKEN" //nolint:gosec // the name of one

// links are the flags about TLS and who asks. Each may be an environment variable too: IQCTL_TLS_CA for --tls-ca.
type links struct {
	tls                       bool
	ca, cert, key, serverName string
	tokenFile                 string
}

func (l *links) flags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.BoolVar(&l.tls, "tls", false, "connect by TLS, with the system's authorities unless --tls-ca names others (or $IQCTL_TLS=true)")
	f.StringVar(&l.ca, "tls-ca", "", "file with the authorities that sign the servers' certificates, PEM; means --tls (or $IQCTL_TLS_CA)")
	f.StringVar(&l.cert, "tls-cert", "", "file with a client certificate, PEM; means --tls (or $IQCTL_TLS_CERT)")
	f.StringVar(&l.key, "tls-key", "", "file with the key of the certificate, PEM (or $IQCTL_TLS_KEY)")
	f.StringVar(&l.serverName, "tls-server-name", "", "name that the servers' certificates must have, if not their host's (or $IQCTL_TLS_SERVER_NAME)")
	f.StringVar(&l.tokenFile, "token-file", "", "file with a bearer token (or $IQCTL_TOKEN_FILE, or the token itself in $"+tokenEnv+")")
}

// options make the client show and check what the flags and the environment say.
func (l *links) options(getenv func(string) string) ([]client.Option, error) {
	files := certs.Config{
		CertFile: cmp.Or(l.cert, getenv("IQCTL_TLS_CERT")), KeyFile: cmp.Or(l.key, getenv("IQCTL_TLS_KEY")),
		CAFile: cmp.Or(l.ca, getenv("IQCTL_TLS_CA")), ServerName: cmp.Or(l.serverName, getenv("IQCTL_TLS_SERVER_NAME")),
	}
	tokenFile, token := cmp.Or(l.tokenFile, getenv("IQCTL_TOKEN_FILE")), getenv(tokenEnv)
	var opts []client.Option
	if l.tls || getenv("IQCTL_TLS") == "true" || files != (certs.Config{}) {
		id, err := certs.Load(files)
		if err != nil {
			return nil, usagef("TLS: %w", err)
		}
		opts = append(opts, client.WithDialOptions(grpc.WithTransportCredentials(id.Credentials())))
	} else if tokenFile != "" || token != "" {
		return nil, usagef("a token is shown by TLS only: give --tls or --tls-ca")
	}
	switch {
	case tokenFile != "":
		opts = append(opts, client.WithTokenFile(tokenFile))
	case token != "":
		opts = append(opts, client.WithToken(func(context.Context) (string, error) { return token, nil }))
	}
	return opts, nil
}
