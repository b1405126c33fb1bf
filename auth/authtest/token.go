package authtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// A Signer signs tokens.
type Signer struct {
	// Public is its public key.
	Public jose.JSONWebKey

	private jose.JSONWebKey
	alg     jose.SignatureAlgorithm
}

// NewSigner makes a signer with a new key for an algorithm: RS256, ES256 or EdDSA.
func NewSigner(tb testing.TB, alg, kid string) *Signer {
	tb.Helper()
	var private crypto.Signer
	var err error
	switch jose.SignatureAlgorithm(alg) { //nolint:exhaustive // those that the tests need
	case jose.RS256:
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	case jose.ES256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.EdDSA:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		tb.Fatalf("no signer for %s", alg)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return &Signer{
		Public:  jose.JSONWebKey{Key: private.Public(), KeyID: kid, Algorithm: alg, Use: "sig"},
		private: jose.JSONWebKey{Key: private, KeyID: kid, Algorithm: alg}, alg: jose.SignatureAlgorithm(alg),
	}
}

// Token signs claims.
func (s *Signer) Token(tb testing.TB, claims map[string]any) string {
	tb.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: s.alg, Key: s.private}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// KeySet is the public keys of signers as a JWK set.
func KeySet(tb testing.TB, signers ...*Signer) []byte {
	tb.Helper()
	var set jose.JSONWebKeySet
	for _, s := range signers {
		set.Keys = append(set.Keys, s.Public)
	}
	text, err := json.Marshal(set)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// Unsigned is a token without a signature ("alg": "none").
func Unsigned(tb testing.TB, claims map[string]any) string {
	tb.Helper()
	body, err := json.Marshal(claims)
	if err != nil {
		tb.Fatal(err)
	}
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + part(body) + "."
}

// SignedWith is a token signed by HS256 with a secret, which an attacker takes from what is public.
func SignedWith(tb testing.TB, secret []byte, kid string, claims map[string]any) string {
	tb.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: secret, KeyID: kid}}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}
