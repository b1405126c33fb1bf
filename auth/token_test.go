package auth

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iqgate/iqgate/auth/authtest"
)

const secretClaim = "hunter2"

func TestTokens(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rs, es, ed, unknown := authtest.NewSigner(t, "RS256", "r"), authtest.NewSigner(t, "ES256", "e"), authtest.NewSigner(t, "EdDSA", "d"), authtest.NewSigner(t, "ES256", "x")
	impostor := authtest.NewSigner(t, "ES256", "e") // another key by the name of a known one
	keys, err := parseKeys(authtest.KeySet(t, rs, es, ed))
	if err != nil {
		t.Fatal(err)
	}
	rules := &tokenRules{issuer: "https://login.acme.com", audience: []string{"iqgate", "other"}, groups: []string{"groups", "realm_access.roles"}}
	claims := func(edit func(c map[string]any)) map[string]any {
		c := map[string]any{
			"iss": "https://login.acme.com", "aud": "iqgate", "sub": "alice", "exp": now.Add(time.Minute).Unix(), "secret": secretClaim,
		}
		if edit != nil {
			edit(c)
		}
		return c
	}
	set := func(name string, value any) func(map[string]any) {
		return func(c map[string]any) { c[name] = value }
	}
	without := func(name string) func(map[string]any) { return func(c map[string]any) { delete(c, name) } }
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	public, err := x509.MarshalPKIXPublicKey(es.Public.Key.(*ecdsa.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	publicJWK, err := json.Marshal(es.Public)
	if err != nil {
		t.Fatal(err)
	}
	good := es.Token(t, claims(nil))
	head, rest, _ := strings.Cut(good, ".")
	body, signature, _ := strings.Cut(rest, ".")
	_, otherSignature, _ := strings.Cut(strings.SplitN(es.Token(t, claims(set("sub", "bob"))), ".", 2)[1], ".")
	for _, c := range []struct {
		name, token string
		want        string // the names, or what is wrong
	}{
		{"RS256", rs.Token(t, claims(nil)), "sub:alice"},
		{"ES256", good, "sub:alice"},
		{"EdDSA", ed.Token(t, claims(nil)), "sub:alice"},
		{"several audiences", es.Token(t, claims(set("aud", []string{"x", "other"}))), "sub:alice"},
		{"groups of two claims", es.Token(t, claims(func(c map[string]any) {
			c["groups"] = []any{"a", 7, "b"}
			c["realm_access"] = map[string]any{"roles": []string{"c"}}
		})), "sub:alice group:a group:b group:c"},
		{"one group as a text", es.Token(t, claims(set("groups", "a"))), "sub:alice group:a"},
		{"a group that looks like a subject", es.Token(t, claims(set("groups", "sub:root"))), "sub:alice group:sub:root"},
		{"expired, within the clocks' skew", es.Token(t, claims(set("exp", at(-29*time.Second)))), "sub:alice"},

		{"expired", es.Token(t, claims(set("exp", at(-31*time.Second)))), "the token has expired"},
		{"no expiry", es.Token(t, claims(without("exp"))), "the token does not say when it expires"},
		{"not yet", es.Token(t, claims(set("nbf", at(time.Minute)))), "the token is not valid yet"},
		{"issued in the future", es.Token(t, claims(set("iat", at(time.Minute)))), "the token is not valid yet"},
		{"another issuer", es.Token(t, claims(set("iss", "https://evil.com"))), "the token is of another issuer"},
		{"no issuer", es.Token(t, claims(without("iss"))), "the token is of another issuer"},
		{"another audience", es.Token(t, claims(set("aud", "billing"))), "the token is for another audience"},
		{"no audience", es.Token(t, claims(without("aud"))), "the token is for another audience"},
		{"no subject", es.Token(t, claims(without("sub"))), "the token names no subject"},
		{"too many groups", es.Token(t, claims(set("groups", slices.Repeat([]string{"g"}, maxNames)))), "the token has too many groups"},
		{"an unknown key", unknown.Token(t, claims(nil)), "the token is signed by a key that is not known"},
		{"another key by the same name", impostor.Token(t, claims(nil)), "the token's signature is wrong"},
		{"another token's signature", head + "." + body + "." + otherSignature, "the token's signature is wrong"},
		{"no signature", head + "." + body + ".", "the token's signature is wrong"},
		{"alg none", authtest.Unsigned(t, claims(nil)), "the token is malformed, or signed by an algorithm that is not accepted"},
		{"HS256 with the public key in PEM", authtest.SignedWith(t, publicPEM, "e", claims(nil)), "the token is malformed, or signed by an algorithm that is not accepted"},
		{"HS256 with the public key as a JWK", authtest.SignedWith(t, publicJWK, "e", claims(nil)), "the token is malformed, or signed by an algorithm that is not accepted"},
		{"two parts", head + "." + body, "the token is malformed, or signed by an algorithm that is not accepted"},
		{"nothing", "", "the token is malformed, or signed by an algorithm that is not accepted"},
		{"too long", strings.Repeat("x", maxTokenBytes+1), "the token is too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := byToken(c.token, rules, keys, now)
			got := strings.Join(p.Names, " ")
			if err != nil {
				got = strings.TrimPrefix(err.Error(), "not authenticated: ")
				if len(p.Names) > 0 {
					t.Errorf("refused and yet %v", p.Names)
				}
				for _, secret := range []string{secretClaim, body, signature} {
					if strings.Contains(err.Error(), secret) {
						t.Errorf("the error tells of the token: %v", err)
					}
				}
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if _, err := byToken(good, nil, nil, now); err == nil {
		t.Error("a token was accepted although the rules accept none")
	}
}

// TestATokenWithoutAKeysNameIsOfTheOnlyKey, and of none when there are several.
func TestATokenWithoutAKeysNameIsOfTheOnlyKey(t *testing.T) {
	now := time.Now()
	a, b := authtest.NewSigner(t, "ES256", ""), authtest.NewSigner(t, "ES256", "b")
	token := a.Token(t, map[string]any{"iss": "i", "aud": "a", "sub": "s", "exp": now.Add(time.Minute).Unix()})
	rules := &tokenRules{issuer: "i", audience: []string{"a"}}
	named := authtest.NewSigner(t, "ES256", "n")
	named.Public.Key = a.Public.Key
	one, err := parseKeys(authtest.KeySet(t, named))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := byToken(token, rules, one, now); err != nil || p.String() != "sub:s" {
		t.Errorf("got %v, %v", p, err)
	}
	two, err := parseKeys(authtest.KeySet(t, named, b))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := byToken(token, rules, two, now); err == nil {
		t.Error("a key was guessed")
	}
}

func TestKeySetsWithAnythingButPublicKeysAreRefused(t *testing.T) {
	public := authtest.KeySet(t, authtest.NewSigner(t, "ES256", "e"))
	for _, c := range []struct{ text, want string }{
		{string(public), ""},
		{`{"keys":[{"kty":"oct","k":"aHVudGVyMg","kid":"s"}]}`, "only public RSA, EC and Ed25519 keys belong here"},
		{`{"keys":[]}`, "there is none that signs"},
		{`{"keys":[{"kty":"EC","crv":"P-256","x":"hunter2","y":"hunter2"}]}`, "no JWK set"},
		{`hunter2`, "no JWK set"},
		{strings.Replace(string(public), `"use":"sig"`, `"use":"enc"`, 1), "there is none that signs"},
		{strings.Replace(string(public), `"alg":"ES256"`, `"alg":"HS256"`, 1), `algorithm "HS256" does not sign tokens here`},
	} {
		_, err := parseKeys([]byte(c.text))
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

func FuzzTokensNeverPanicNorPass(f *testing.F) {
	signer := authtest.NewSigner(f, "EdDSA", "d")
	keys, err := parseKeys(authtest.KeySet(f, signer))
	if err != nil {
		f.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	claims := map[string]any{"iss": "i", "aud": "a", "sub": "s", "exp": now.Add(time.Hour).Unix()}
	good := signer.Token(f, claims)
	f.Add(good)
	f.Add(authtest.Unsigned(f, claims))
	f.Add(authtest.SignedWith(f, []byte("0123456789abcdef0123456789abcdef"), "d", claims))
	f.Fuzz(func(t *testing.T, raw string) {
		p, err := byToken(raw, &tokenRules{issuer: "i", audience: []string{"a"}}, keys, now)
		if err == nil && strings.TrimSpace(raw) != good && !sameSigned(raw, good) {
			t.Errorf("%q was accepted as %v", raw, p)
		}
	})
}

// sameSigned says whether two tokens are the same but for what base64 passes over at the end of a part.
func sameSigned(a, b string) bool {
	trim := func(s string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(s) }
	return trim(a) == trim(b)
}

func TestCachesAreBounded(t *testing.T) {
	var c cache[int, int]
	for i := range 10 * maxCached {
		c.put(i, i)
		if v, ok := c.get(0); !ok || v != 0 { // what is used stays
			t.Fatalf("0 was forgotten after %d", i)
		}
	}
	if n := len(c.mu.young) + len(c.mu.old); n > 2*maxCached {
		t.Errorf("%d entries", n)
	}
	if _, ok := c.get(10*maxCached - 1); !ok {
		t.Error("the newest was forgotten")
	}
}
