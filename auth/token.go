package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	// maxTokenBytes bounds a bearer token.
	maxTokenBytes = 16 << 10
	// clockSkew is how far another machine's clock may be off when a token's times are judged.
	clockSkew = 30 * time.Second
	// minRSABits is the smallest RSA key that signs tokens.
	minRSABits = 2048
)

// algorithms are those by which tokens may be signed. All have a public and a private half: a token that is signed with a
// secret, or not at all, is never looked at.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// A keySet is the public keys that sign tokens.
type keySet struct{ keys []jose.JSONWebKey }

// parseKeys reads a JWK set (RFC 7517).
func parseKeys(text []byte) (*keySet, error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("keys: no JWK set, or one with a key that cannot be read") // the error might tell of a key
	}
	ks := &keySet{}
	for i := range set.Keys {
		k := &set.Keys[i]
		switch key := k.Key.(type) {
		case *rsa.PublicKey:
			if key.N.BitLen() < minRSABits {
				return nil, fmt.Errorf("keys[%d]: an RSA key of %d bits; at least %d are needed", i, key.N.BitLen(), minRSABits)
			}
		case *ecdsa.PublicKey, ed25519.PublicKey:
		default:
			return nil, fmt.Errorf("keys[%d]: only public RSA, EC and Ed25519 keys belong here; secrets and private keys do not", i)
		}
		if k.Use != "" && k.Use != "sig" {
			continue // it signs nothing
		}
		if k.Algorithm != "" && !slices.Contains(algorithms, jose.SignatureAlgorithm(k.Algorithm)) {
			return nil, fmt.Errorf("keys[%d]: algorithm %q does not sign tokens here", i, k.Algorithm)
		}
		ks.keys = append(ks.keys, *k)
	}
	if len(ks.keys) == 0 {
		return nil, errors.New("keys: there is none that signs")
	}
	return ks, nil
}

// find is the key that a token's header names; without a name it is the only key.
func (ks *keySet) find(h jose.Header) (*jose.JSONWebKey, bool) {
	for i := range ks.keys {
		k := &ks.keys[i]
		named := k.KeyID == h.KeyID || h.KeyID == "" && len(ks.keys) == 1
		if named && (k.Algorithm == "" || k.Algorithm == h.Algorithm) {
			return k, true
		}
	}
	return nil, false
}

// byToken is who holds a bearer token, which must be signed by one of the keys, of the issuer, for the audience, and valid
// at now.
func byToken(raw string, t *tokenRules, keys *keySet, now time.Time) (Principal, error) {
	if t == nil {
		return Principal{}, unauthenticated("bearer tokens are not accepted here")
	}
	if len(raw) > maxTokenBytes {
		return Principal{}, unauthenticated("the token is too long")
	}
	token, err := jwt.ParseSigned(raw, algorithms)
	if err != nil {
		return Principal{}, unauthenticated("the token is malformed, or signed by an algorithm that is not accepted")
	}
	key, ok := keys.find(token.Headers[0])
	if !ok {
		return Principal{}, unauthenticated("the token is signed by a key that is not known")
	}
	var claims jwt.Claims
	var all map[string]any
	if err := token.Claims(key.Key, &claims, &all); err != nil {
		return Principal{}, unauthenticated("the token's signature is wrong")
	}
	err = claims.ValidateWithLeeway(jwt.Expected{Issuer: t.issuer, AnyAudience: t.audience, Time: now}, clockSkew)
	switch {
	case errors.Is(err, jwt.ErrExpired):
		return Principal{}, unauthenticated("the token has expired")
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return Principal{}, unauthenticated("the token is not valid yet")
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return Principal{}, unauthenticated("the token is of another issuer")
	case errors.Is(err, jwt.ErrInvalidAudience):
		return Principal{}, unauthenticated("the token is for another audience")
	case err != nil:
		return Principal{}, unauthenticated("the token is not valid")
	case claims.Expiry == nil:
		return Principal{}, unauthenticated("the token does not say when it expires")
	case claims.Subject == "":
		return Principal{}, unauthenticated("the token names no subject")
	}
	p := Principal{Names: []string{"sub:" + claims.Subject}, Expires: claims.Expiry.Time().Add(clockSkew)}
	for _, claim := range t.groups {
		for _, g := range groupsIn(all, claim) {
			p.Names = append(p.Names, "group:"+g)
		}
	}
	if len(p.Names) > maxNames {
		return Principal{}, unauthenticated("the token has too many groups")
	}
	return p, nil
}

// groupsIn are the groups of a claim: a text or a list of texts, by the claim's name or by a path with dots.
func groupsIn(claims map[string]any, path string) []string {
	value, ok := claims[path]
	if !ok {
		first, rest, nested := strings.Cut(path, ".")
		inner, isMap := claims[first].(map[string]any)
		if !nested || !isMap {
			return nil
		}
		return groupsIn(inner, rest)
	}
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		var groups []string
		for _, g := range v {
			if text, ok := g.(string); ok {
				groups = append(groups, text)
			}
		}
		return groups
	}
	return nil
}
