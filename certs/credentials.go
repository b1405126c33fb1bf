package certs

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
)

// Credentials are gRPC's, for clients: each handshake uses the newest edition of the files.
func (i *Identity) Credentials() credentials.TransportCredentials {
	return &dialled{TransportCredentials: credentials.NewTLS(i.config13()), identity: i}
}

// config13 is Client for servers of this module.
func (i *Identity) config13() *tls.Config {
	c := i.Client()
	c.MinVersion = tls.VersionTLS13
	return c
}

// dialled makes new credentials for each handshake. What it embeds answers what does not depend on the files.
type dialled struct {
	credentials.TransportCredentials
	identity *Identity
}

// ClientHandshake implements credentials.TransportCredentials.
func (d *dialled) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	made, info, err := credentials.NewTLS(d.identity.config13()).ClientHandshake(ctx, authority, conn)
	if err != nil {
		return nil, nil, err
	}
	return d.identity.links.add(made), info, nil
}

// Clone implements credentials.TransportCredentials.
func (d *dialled) Clone() credentials.TransportCredentials {
	return &dialled{TransportCredentials: d.TransportCredentials.Clone(), identity: d.identity}
}
