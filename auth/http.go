package auth

import (
	"crypto/tls"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Interceptors let calls in that come over another protocol and are carried on as calls of gRPC within the process, as
// ServerOptions does for gRPC's own. Their context has the peer, with the AuthInfo of Connection, and a bearer token as the
// metadata "authorization". Both are nil where everybody may do everything.
func (s *Security) Interceptors() (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	if s == nil || s.Guard == nil {
		return nil, nil
	}
	return s.Guard.unary, s.Guard.stream
}

// Connection is a client's connection as a Guard knows it. Keep one for each connection: it remembers whose certificate it is.
func Connection(state tls.ConnectionState) credentials.AuthInfo {
	return &connection{TLSInfo: credentials.TLSInfo{State: state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}}
}

// HTTPConfig is the configuration of a listener for HTTP/1.1 and HTTP/2; it is nil for plaintext. Each handshake uses the newest
// edition of the files.
func (s *Security) HTTPConfig() (*tls.Config, error) {
	if s == nil {
		return nil, nil //nolint:nilnil // no security is an answer, see Security
	}
	c, err := s.Identity.Server(s.RequireCertificate)
	if err != nil {
		return nil, err
	}
	newest := c.GetConfigForClient
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := newest(hello)
		if err == nil {
			c.NextProtos = []string{"h2", "http/1.1"}
		}
		return c, err
	}
	return c, nil
}
