package auth

import (
	"crypto/x509"
	"errors"
	"time"

	"github.com/iqgate/iqgate/iqerr"
)

// maxChain bounds the certificates that a client may show.
const maxChain = 10

// byCertificate is who shows a chain of certificates, its own first. roots are the authorities that may have signed it.
func byCertificate(chain []*x509.Certificate, roots *x509.CertPool, now time.Time) (Principal, error) {
	switch {
	case len(chain) == 0:
		return Principal{}, unauthenticated("no credentials were given: neither a client certificate nor a bearer token")
	case roots == nil:
		return Principal{}, unauthenticated("client certificates are not accepted here")
	case len(chain) > maxChain:
		return Principal{}, unauthenticated("the certificate's chain is too long")
	}
	rest := x509.NewCertPool()
	for _, c := range chain[1:] {
		rest.AddCert(c)
	}
	chains, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: rest, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return Principal{}, unauthenticated(certificateProblem(err))
	}
	p := Principal{Names: certificateNames(chain[0]), Expires: expiry(chains)}
	switch {
	case len(p.Names) == 0:
		return Principal{}, unauthenticated("the certificate has no name")
	case len(p.Names) > maxNames:
		return Principal{}, unauthenticated("the certificate has too many names")
	}
	return p, nil
}

// certificateNames are the names of a certificate that rules can speak of, the most telling first.
func certificateNames(c *x509.Certificate) []string {
	var names []string
	for _, u := range c.URIs {
		names = append(names, "uri:"+u.String())
	}
	for _, d := range c.DNSNames {
		names = append(names, "dns:"+d)
	}
	if c.Subject.CommonName != "" {
		names = append(names, "cn:"+c.Subject.CommonName)
	}
	return names
}

// expiry is when the last of the chains ends, each with its first certificate that does.
func expiry(chains [][]*x509.Certificate) time.Time {
	var last time.Time
	for _, chain := range chains {
		end := chain[0].NotAfter
		for _, c := range chain {
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(last) {
			last = end
		}
	}
	return last
}

// certificateProblem says what is wrong with a certificate, and nothing of what is in it.
func certificateProblem(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the certificate is not signed by an authority that is trusted here"
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		switch e.Reason { //nolint:exhaustive // the others are one to a caller
		case x509.Expired:
			return "the certificate has expired or is not valid yet"
		case x509.IncompatibleUsage:
			return "the certificate is not for clients (extended key usage)"
		}
	}
	return "the certificate is not valid"
}

func unauthenticated(problem string) error { return &iqerr.UnauthenticatedError{Problem: problem} }
