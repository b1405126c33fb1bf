package auth

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/iqgate/iqgate/certs"
	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/reload"
)

// A GuardConfig says what a Guard judges by.
type GuardConfig struct {
	// Rules is the file with the rules, YAML. Required.
	Rules string
	// Keys is the file with the JWK set that signs tokens. Required when the rules accept tokens.
	Keys string
	// Identity has the authorities that sign client certificates. Required.
	Identity *certs.Identity
	// Log takes refusals, at most one a second, and never credentials. Default slog.Default().
	Log *slog.Logger
}

// policy is one edition of rules and keys.
type policy struct {
	rules *Rules
	keys  *keySet
}

// A Guard lets the calls of a server in, or refuses them. It is safe for concurrent use, but for Check.
type Guard struct {
	policy   *reload.Value[policy]
	identity *certs.Identity
	log      *slog.Logger
	tokens   cache[[sha256.Size]byte, *caller]
	named    cache[string, named] // by keyOf the names that a router gave
	said     complaints
}

// NewGuard reads rules and keys. reload.Follow keeps the guard with them.
func NewGuard(c GuardConfig) (*Guard, error) {
	if c.Identity == nil {
		return nil, errors.New("auth: Identity is required: credentials are taken on TLS alone")
	}
	paths := []string{c.Rules}
	if c.Keys != "" {
		paths = append(paths, c.Keys)
	}
	v, err := reload.New("rules and keys", paths, parsePolicy)
	if err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &Guard{policy: v, identity: c.Identity, log: c.Log}, nil
}

// parsePolicy reads the rules and, if there are more contents, the keys.
func parsePolicy(contents [][]byte) (*policy, error) {
	rules, err := ParseRules(contents[0])
	if err != nil {
		return nil, err
	}
	p := &policy{rules: rules}
	if len(contents) > 1 {
		if p.keys, err = parseKeys(contents[1]); err != nil {
			return nil, err
		}
	}
	if (rules.tokens != nil) != (p.keys != nil) {
		return nil, errors.New("tokens need both: a tokens section in the rules and a file of keys")
	}
	return p, nil
}

// Check looks at the files; see reload.Value.
func (g *Guard) Check() (changed bool, err error) { return g.policy.Check() }

// What names the files in logs.
func (g *Guard) What() string { return g.policy.What() }

// caller is a principal and what one edition of the rules says of it.
type caller struct {
	Principal
	policy *policy
	roots  *x509.CertPool
	grants *grants
}

// named is what one edition of the rules says of the names that a router gave. How long they hold depends on the router.
type named struct {
	policy *policy
	grants *grants
}

// valid says whether the caller may be taken as it is.
func (c *caller) valid(p *policy, roots *x509.CertPool, now time.Time) bool {
	return c.policy == p && c.roots == roots && (c.Expires.IsZero() || now.Before(c.Expires))
}

// connection is a client's connection, as grpc hands it to each call.
type connection struct {
	credentials.TLSInfo
	certified atomic.Pointer[caller] // by its certificate, which is not verified again for each call
}

const (
	tokenHeader = "authorization"
	tokenScheme = "bearer "
)

// authenticate finds out who calls, at now.
func (g *Guard) authenticate(ctx context.Context, now time.Time) (*caller, error) {
	pol, roots := g.policy.Load(), g.identity.Roots()
	shown, err := g.shown(ctx, pol, roots, now)
	if err != nil {
		return nil, err
	}
	names := metadata.ValueFromIncomingContext(ctx, callerHeader)
	if len(names) == 0 {
		return shown, nil
	}
	return g.speaksFor(shown, names)
}

// shown is who holds the credentials of a call: the token if there is one, else the certificate.
func (g *Guard) shown(ctx context.Context, pol *policy, roots *x509.CertPool, now time.Time) (*caller, error) {
	known := func(p Principal) *caller {
		return &caller{Principal: p, policy: pol, roots: roots, grants: pol.rules.grants(p)}
	}
	p, _ := peer.FromContext(ctx)
	var conn *connection
	if p != nil {
		conn, _ = p.AuthInfo.(*connection)
	}
	if conn == nil {
		return nil, unauthenticated("the connection is not protected by TLS")
	}
	switch tokens := metadata.ValueFromIncomingContext(ctx, tokenHeader); {
	case len(tokens) > 1:
		return nil, unauthenticated("more than one token was given")
	case len(tokens) == 1:
		if len(tokens[0]) < len(tokenScheme) || !strings.EqualFold(tokens[0][:len(tokenScheme)], tokenScheme) {
			return nil, unauthenticated("only bearer tokens are accepted")
		}
		raw := tokens[0][len(tokenScheme):]
		sum := sha256.Sum256([]byte(raw))
		if c, ok := g.tokens.get(sum); ok && c.valid(pol, roots, now) {
			return c, nil
		}
		p, err := byToken(raw, pol.rules.tokens, pol.keys, now)
		if err != nil {
			return nil, err
		}
		c := known(p)
		g.tokens.put(sum, c)
		return c, nil
	}
	if c := conn.certified.Load(); c != nil && c.valid(pol, roots, now) {
		return c, nil
	}
	holder, err := byCertificate(conn.State.PeerCertificates, roots, now)
	if err != nil {
		return nil, err
	}
	c := known(holder)
	conn.certified.Store(c)
	return c, nil
}

// speaksFor is for whom a router asks. Its own credentials bound how long.
func (g *Guard) speaksFor(router *caller, names []string) (*caller, error) {
	switch {
	case !router.grants.router:
		return nil, unauthenticated("only a router may say for whom it asks") // a router's caller is not to blame: see ownFault
	case len(names) > maxNames:
		return nil, unauthenticated("the router names a caller with too many names")
	}
	key := keyOf(names)
	known, ok := g.named.get(key)
	if !ok || known.policy != router.policy {
		known = named{policy: router.policy, grants: router.policy.rules.grants(Principal{Names: names})}
		g.named.put(key, known)
	}
	p := Principal{Names: names, Expires: router.Expires}
	return &caller{Principal: p, policy: router.policy, roots: router.roots, grants: known.grants}, nil
}

// keyOf is a text for names that no other names have, whatever characters are in them.
func keyOf(names []string) string {
	var b []byte
	for _, n := range names {
		b = append(binary.AppendUvarint(b, uint64(len(n))), n...)
	}
	return string(b)
}

// wantsOf is the row of a method. One that has none is refused.
func wantsOf(name string) (method, error) {
	m, ok := methods[name]
	if !ok {
		return m, &iqerr.DeniedError{Action: "call", Problem: "the method is not known to the rules"}
	}
	return m, nil
}

// allowed judges a message of a method.
func (m method) allowed(c *caller, msg any) error {
	if m.wants == nil {
		return nil
	}
	wants, err := m.wants(msg)
	if err != nil {
		return err
	}
	return c.grants.allow(wants)
}

// unary is the guard as an interceptor.
func (g *Guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	m, err := wantsOf(info.FullMethod)
	if m.public {
		return next(ctx, req)
	}
	var c *caller
	if err == nil {
		c, err = g.authenticate(ctx, time.Now())
	}
	if err == nil {
		err = m.allowed(c, req)
	}
	if err != nil {
		return nil, g.refuse(ctx, info.FullMethod, c, err)
	}
	answer, err := next(withCaller(ctx, &session{guard: g, now: c}), req)
	if err != nil {
		return nil, c.grants.confineError(err)
	}
	if m.confine != nil {
		answer = m.confine(c.grants, answer)
	}
	return answer, nil
}

// refuse logs a refusal and gives it as the caller gets it.
func (g *Guard) refuse(ctx context.Context, method string, c *caller, err error) error {
	if others, ok := g.said.may(time.Now()); ok {
		who := ""
		if c != nil {
			who = c.String()
		}
		from := ""
		if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
			from = p.Addr.String()
		}
		g.log.Warn("a call was refused", slog.String("method", method), slog.String("caller", who), slog.String("from", from),
			slog.Any("error", err), slog.Int("others_since_last", others))
	}
	return iqerr.Status(err)
}
