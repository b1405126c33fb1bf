//go:build synctests

package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/iqgate/iqgate/auth"
	"github.com/iqgate/iqgate/auth/authtest"
	"github.com/iqgate/iqgate/certs"
	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/node"
	"github.com/iqgate/iqgate/router"
)

// What may never stand in an error that a caller gets.
const (
	secretKey   = "al-secret-key"
	secretValue = "secret-value"
)

const securityRules = `
tokens: {issuer: https://login.acme.com, audience: [iqgate]}
nodes: ["uri:spiffe://acme/iqnode/{node}"]
routers: ["cn:iqrouter"]
rules:
  - {who: ["sub:reader"], allow: [read, watch, metadata], stores: [counts], keys: [al]}
  - {who: ["sub:other"], allow: [read, watch, metadata], stores: [others]}
  - {who: ["cn:admin", "group:admins"], allow: [read, watch, metadata], stores: ["*"]}
  - {who: ["cn:operator"], allow: [control]}
`

// checkFiles is how often the processes of a secured cluster look at their files.
const checkFiles = time.Second

// secured is a cluster whose links have TLS, and where the rules say who may do what.
type secured struct {
	*bubble.Cluster
	t      *testing.T
	dir    string
	ca     *authtest.CA
	signer *authtest.Signer
	nodes  map[string]*bubble.Node
	router *bubble.Router
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	s := &secured{
		t: t, dir: t.TempDir(), ca: authtest.NewCA(t, "acme"), signer: authtest.NewSigner(t, "ES256", "k1"), nodes: map[string]*bubble.Node{},
		Cluster: bubble.New(t, bubble.Options{
			Topics: map[string]int32{"in": 2}, Topology: countByKey, Routers: []string{"r1"}, Log: verboseLog(t),
		}),
	}
	s.write("ca.pem", s.ca.PEM)
	s.write("rules.yaml", []byte(securityRules))
	s.write("keys.json", authtest.KeySet(t, s.signer))
	return s
}

// start begins a router and nodes, and waits until each partition has an active and a standby that is up to date.
func (s *secured) start() {
	s.t.Helper()
	s.router = s.StartRouter("r1", func(c *router.Config) { c.Security = s.security("r1", routerHolder, "rules.yaml") })
	for _, id := range []string{"a", "b"} {
		s.nodes[id] = s.StartNode(id, func(c *node.Config) { c.Security = s.security(id, nodeHolder(id), "rules.yaml") })
	}
	cl := s.Client()
	defer cl.Close()
	if err := bubble.Produce(s.t.Context(), cl, "in", secretKey, secretValue); err != nil {
		s.t.Fatal(err)
	}
	admin := s.client("r1:7000", s.admin().options...)
	defer func() { _ = admin.Close() }()
	s.Eventually(time.Minute, "each replica is up to date", func() error { return upToDate(s.t.Context(), admin, "counts", 4) })
	for _, n := range s.nodes {
		s.Eventually(time.Minute, "the key is at "+n.ID, func() error { return s.get(n.Address, s.admin()) })
	}
}

var routerHolder = authtest.Holder{CN: "iqrouter", DNS: []string{"r1"}}

func nodeHolder(id string) authtest.Holder {
	return authtest.Holder{DNS: []string{id}, URIs: []string{"spiffe://acme/iqnode/" + id}}
}

func (s *secured) write(name string, content []byte) string {
	s.t.Helper()
	return authtest.WriteFile(s.t, s.dir, name, content)
}

// security is that of a process with files of its own.
func (s *secured) security(name string, h authtest.Holder, rules string) *auth.Security {
	s.t.Helper()
	cert, key := s.ca.Issue(s.t, h).Write(s.t, s.dir, name)
	id, err := certs.Load(certs.Config{CertFile: cert, KeyFile: key, CAFile: s.dir + "/ca.pem"})
	if err != nil {
		s.t.Fatal(err)
	}
	guard, err := auth.NewGuard(auth.GuardConfig{Rules: s.dir + "/" + rules, Keys: s.dir + "/keys.json", Identity: id, Log: s.Log})
	if err != nil {
		s.t.Fatal(err)
	}
	return &auth.Security{Identity: id, Guard: guard, CheckInterval: checkFiles}
}

// A credential is what a caller shows.
type credential struct {
	name    string
	token   string
	options []grpc.DialOption
}

// by is a credential of a certificate, which may be none, a token, which may be empty, and the names of another caller.
func (s *secured) by(name string, p *authtest.Pair, token string, callerNames ...string) credential {
	s.t.Helper()
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool()}
	cfg.RootCAs.AppendCertsFromPEM(s.ca.PEM)
	if p != nil {
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		if err != nil {
			s.t.Fatal(err)
		}
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	c := credential{name: name, token: token, options: []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(cfg))}}
	if token != "" || len(callerNames) > 0 {
		show := func(ctx context.Context) context.Context {
			var pairs []string
			if token != "" {
				pairs = append(pairs, "authorization", "Bearer "+token)
			}
			for _, n := range callerNames {
				pairs = append(pairs, "iqgate-caller-bin", n)
			}
			return metadata.AppendToOutgoingContext(ctx, pairs...)
		}
		c.options = append(c.options,
			grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				return invoke(show(ctx), method, req, reply, cc, opts...)
			}),
			grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				return open(show(ctx), desc, cc, method, opts...)
			}))
	}
	return c
}

func (s *secured) certificate(name string, h authtest.Holder) credential {
	s.t.Helper()
	p := s.ca.Issue(s.t, h)
	return s.by(name, &p, "")
}

func (s *secured) admin() credential { return s.certificate("admin", authtest.Holder{CN: "admin"}) }

// claims are those of a token that is valid for some time.
func claims(subject string, valid time.Duration) map[string]any {
	return map[string]any{"iss": "https://login.acme.com", "aud": "iqgate", "sub": subject, "exp": time.Now().Add(valid).Unix()}
}

func (s *secured) tokenOf(subject string) string {
	return s.signer.Token(s.t, claims(subject, time.Hour))
}

// plaintext is a caller that does without TLS.
func plaintext() credential {
	return credential{name: "plaintext", options: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}}
}

// conn is a connection with a credential.
func (s *secured) conn(address string, c credential) *grpc.ClientConn {
	s.t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+address, append(c.options, grpc.WithContextDialer(s.Dial), grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, MaxDelay: 200 * time.Millisecond}, MinConnectTimeout: time.Second,
	}))...)
	if err != nil {
		s.t.Fatal(err)
	}
	return cc
}
