package authtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Begin and End are when certificates are valid unless a Holder says otherwise: the clock of a bubble, which begins in
// 2000, lies between them too.
var (
	Begin = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	End   = time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
)

// A CA signs certificates.
type CA struct {
	// PEM is its own certificate.
	PEM []byte

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA makes an authority.
func NewCA(tb testing.TB, name string) *CA {
	tb.Helper()
	ca := &CA{key: newKey(tb)}
	template := &x509.Certificate{
		SerialNumber: serial(tb), Subject: pkix.Name{CommonName: name}, NotBefore: Begin, NotAfter: End,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, ca.key.Public(), ca.key)
	if err != nil {
		tb.Fatal(err)
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	ca.PEM = encode("CERTIFICATE", der)
	return ca
}

// A Holder is whom a certificate is about. It is for servers and clients unless ServerOnly is set.
type Holder struct {
	CN         string
	DNS        []string
	URIs       []string
	IPs        []net.IP
	ServerOnly bool
	NotBefore  time.Time // default Begin
	NotAfter   time.Time // default End
}

// A Pair is a certificate and its key, in PEM.
type Pair struct{ Cert, Key []byte }

// Issue signs a certificate.
func (ca *CA) Issue(tb testing.TB, h Holder) Pair {
	tb.Helper()
	key := newKey(tb)
	template := &x509.Certificate{
		SerialNumber: serial(tb), Subject: pkix.Name{CommonName: h.CN}, DNSNames: h.DNS, IPAddresses: h.IPs,
		NotBefore: Begin, NotAfter: End,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if h.ServerOnly {
		template.ExtKeyUsage = template.ExtKeyUsage[:1]
	}
	if !h.NotBefore.IsZero() {
		template.NotBefore = h.NotBefore
	}
	if !h.NotAfter.IsZero() {
		template.NotAfter = h.NotAfter
	}
	for _, text := range h.URIs {
		u, err := url.Parse(text)
		if err != nil {
			tb.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		tb.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return Pair{Cert: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", keyDER)}
}

// Write puts the pair into files of a folder, name.pem and name.key, and gives their paths.
func (p Pair) Write(tb testing.TB, dir, name string) (cert, key string) {
	tb.Helper()
	return WriteFile(tb, dir, name+".pem", p.Cert), WriteFile(tb, dir, name+".key", p.Key)
}

// WriteFile writes a file and gives its path.
func WriteFile(tb testing.TB, dir, name string, content []byte) string {
	tb.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func serial(tb testing.TB) *big.Int {
	tb.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
