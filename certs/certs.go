package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/iqgate/iqgate/reload"
)

// A Config names the files of an Identity. All are PEM.
type Config struct {
	// CertFile is the process's own certificate, with the intermediate ones after it, and KeyFile its private key. Both or
	// none: a client may go without, a server may not.
	CertFile, KeyFile string
	// CAFile has the authorities that sign the peers' certificates: those of servers that are dialled, and those of clients
	// that call. Empty: the system's, for servers that are dialled; then no client's certificate is trusted.
	CAFile string
	// ServerName is the name that the certificate of a server that is dialled must have. Empty: the host that is dialled.
	ServerName string
}

// Validate reports every bad field at once and names it.
func (c Config) Validate() error {
	if (c.CertFile == "") != (c.KeyFile == "") {
		return fmt.Errorf("certs: CertFile %q and KeyFile %q: both must be given, or none", c.CertFile, c.KeyFile)
	}
	return nil
}

// edition is what the files said at one moment.
type edition struct {
	cert  *tls.Certificate // nil for none
	roots *x509.CertPool   // nil for the system's
}

// An Identity is what a process shows and whom it trusts. It is safe for concurrent use, but for Check.
type Identity struct {
	value  *reload.Value[edition]
	config Config
	links  links
}

// Load reads the files. reload.Follow keeps the identity with them.
func Load(c Config) (*Identity, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var paths []string
	if c.CertFile != "" {
		paths = append(paths, c.CertFile, c.KeyFile)
	}
	if c.CAFile != "" {
		paths = append(paths, c.CAFile)
	}
	v, err := reload.New("certificates", paths, func(contents [][]byte) (*edition, error) { return parse(c, contents) })
	if err != nil {
		return nil, err
	}
	return &Identity{value: v, config: c}, nil
}

func parse(c Config, contents [][]byte) (*edition, error) {
	e := &edition{}
	if c.CertFile != "" {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", c.CertFile, c.KeyFile, err)
		}
		e.cert, contents = &pair, contents[2:]
	}
	if c.CAFile != "" {
		e.roots = x509.NewCertPool()
		if !e.roots.AppendCertsFromPEM(contents[0]) {
			return nil, fmt.Errorf("%s has no certificate in PEM", c.CAFile)
		}
	}
	return e, nil
}

// Check looks at the files; see reload.Value. After a change the connections that were dialled by Credentials before are
// closed within renewWithin, so that they are made anew: a peer that judges them goes by the certificate that they began with.
func (i *Identity) Check() (changed bool, err error) {
	if changed, err = i.value.Check(); changed {
		i.links.retire()
	}
	return changed, err
}

// What names the files in logs.
func (i *Identity) What() string { return i.value.What() }

// HasCertificate says whether there is a certificate to show.
func (i *Identity) HasCertificate() bool { return i.value.Load().cert != nil }

// Roots are the authorities that sign the peers' certificates; nil when no file names them. Another pointer is another
// edition.
func (i *Identity) Roots() *x509.CertPool { return i.value.Load().roots }

// errNoRoots is why no client's certificate can be required.
var errNoRoots = errors.New("certs: client certificates can be required only with a CAFile that says who signs them")

// Client is the configuration of the next connection that is dialled. It is of one edition: take another for each.
func (i *Identity) Client() *tls.Config {
	e := i.value.Load()
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: e.roots, ServerName: i.config.ServerName}
	if e.cert != nil {
		// Shown whatever authorities the server names: it alone decides, and says more than a handshake can.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return e.cert, nil }
	}
	return c
}

// Server is the configuration of a listener; each handshake uses the newest edition. With requireClient a client must show a
// certificate that an authority of CAFile has signed. Without it a certificate is asked for and taken as it comes, proof
// of its key included: whoever serves judges it (package auth) and can say in words what is wrong with it.
func (i *Identity) Server(requireClient bool) (*tls.Config, error) {
	if !i.HasCertificate() {
		return nil, errors.New("certs: a server needs a CertFile and a KeyFile")
	}
	if requireClient && i.Roots() == nil {
		return nil, errNoRoots
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			e := i.value.Load()
			c := &tls.Config{
				MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*e.cert}, ClientAuth: tls.RequestClientCert,
				NextProtos:             []string{"h2"},
				SessionTicketsDisabled: true, // a resumed session would bring back the trust of an old edition
			}
			if requireClient {
				c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, e.roots
			}
			return c, nil
		},
	}, nil
}
