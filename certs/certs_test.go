package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/iqgate/iqgate/auth/authtest"
)

// site is a folder with the files of a server.
type site struct {
	t   *testing.T
	dir string
}

func (s site) put(name string, content []byte) {
	s.t.Helper()
	authtest.WriteFile(s.t, s.dir, name, content)
}

func (s site) server(ca *authtest.CA, name string) {
	s.t.Helper()
	ca.Issue(s.t, authtest.Holder{CN: name, DNS: []string{"server"}}).Write(s.t, s.dir, "server")
}

func load(t *testing.T, c Config) *Identity {
	t.Helper()
	id, err := Load(c)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// connect makes a connection to ourselves. One in memory would not do: both ends of a handshake may write at once.
func connect(t *testing.T) (served, dialled net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it has done its work
	if dialled, err = net.Dial("tcp", l.Addr().String()); err == nil {
		served, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	return served, dialled
}

// shake makes one connection and gives whom each side saw, as common names.
func shake(t *testing.T, server, client *tls.Config) (sawServer, sawClient string, err error) {
	t.Helper()
	a, b := connect(t)
	defer a.Close() //nolint:errcheck // a test's
	defer b.Close() //nolint:errcheck // a test's
	s, c := tls.Server(a, server), tls.Client(b, client)
	type end struct {
		state tls.ConnectionState
		err   error
	}
	served := make(chan end, 1)
	go func() {
		err := s.HandshakeContext(context.WithoutCancel(t.Context()))
		if err == nil {
			_, err = s.Write([]byte("."))
		}
		if err != nil {
			_ = a.Close() // and the client need not wait
		}
		served <- end{s.ConnectionState(), err}
	}()
	err = c.HandshakeContext(t.Context())
	if err == nil {
		_, err = c.Read(make([]byte, 1)) // a refused certificate shows here
	}
	if err != nil {
		_ = b.Close()
	}
	e := <-served
	name := func(certs []*x509.Certificate) string {
		if len(certs) == 0 {
			return ""
		}
		return certs[0].Subject.CommonName
	}
	return name(c.ConnectionState().PeerCertificates), name(e.state.PeerCertificates), errors.Join(err, e.err)
}

func TestEachHandshakeUsesTheNewestFiles(t *testing.T) {
	s := site{t, t.TempDir()}
	old, next := authtest.NewCA(t, "old"), authtest.NewCA(t, "next")
	s.put("ca.pem", old.PEM)
	s.server(old, "first")
	id := load(t, Config{CertFile: s.dir + "/server.pem", KeyFile: s.dir + "/server.key", CAFile: s.dir + "/ca.pem", ServerName: "server"})
	server, err := id.Server(true)
	if err != nil {
		t.Fatal(err)
	}
	both := func(wantErr string, want string) {
		t.Helper()
		sawServer, sawClient, err := shake(t, server, id.Client())
		if (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("handshake: %v, want %q", err, wantErr)
		}
		if err == nil && (sawServer != want || sawClient != want) {
			t.Errorf("saw %q and %q, want %q", sawServer, sawClient, want)
		}
	}
	check := func(wantChanged bool) {
		t.Helper()
		changed, err := id.Check()
		if changed != wantChanged {
			t.Errorf("changed %t, %v", changed, err)
		}
	}
	both("", "first")
	s.server(old, "second")
	both("", "first") // nobody has looked yet
	check(true)
	both("", "second")
	if err := os.WriteFile(s.dir+"/server.key", []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	check(false)
	both("", "second")
	s.server(next, "third") // an authority that nobody trusts yet
	check(true)
	both("unknown authority", "")
	s.put("ca.pem", append(append([]byte{}, old.PEM...), next.PEM...))
	check(true)
	both("", "third")
	s.put("ca.pem", old.PEM)
	check(true)
	both("unknown authority", "")
}

func TestClientsCheckChainAndName(t *testing.T) {
	s := site{t, t.TempDir()}
	ca, other := authtest.NewCA(t, "ca"), authtest.NewCA(t, "other")
	s.put("ca.pem", ca.PEM)
	s.put("other.pem", other.PEM)
	s.server(ca, "x")
	files := Config{CertFile: s.dir + "/server.pem", KeyFile: s.dir + "/server.key", CAFile: s.dir + "/ca.pem"}
	server, err := load(t, files).Server(false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		c    Config
		want string
	}{
		{"right", Config{CAFile: s.dir + "/ca.pem", ServerName: "server"}, ""},
		{"another authority", Config{CAFile: s.dir + "/other.pem", ServerName: "server"}, "unknown authority"},
		{"another name", Config{CAFile: s.dir + "/ca.pem", ServerName: "else"}, "not else"},
		{"no name", Config{CAFile: s.dir + "/ca.pem"}, "ServerName"},
	} {
		if _, _, err := shake(t, server, load(t, c.c).Client()); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	required, err := load(t, files).Server(true)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := shake(t, required, load(t, Config{CAFile: s.dir + "/ca.pem", ServerName: "server"}).Client()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a client without a certificate: %v", err)
	}
}

// TestDialledConnectionsAreMadeAnewAfterAChange, and not without one.
func TestDialledConnectionsAreMadeAnewAfterAChange(t *testing.T) {
	s := site{t, t.TempDir()}
	ca := authtest.NewCA(t, "ca")
	s.put("ca.pem", ca.PEM)
	s.server(ca, "x")
	synctest.Test(t, func(t *testing.T) {
		id := load(t, Config{CertFile: s.dir + "/server.pem", KeyFile: s.dir + "/server.key", CAFile: s.dir + "/ca.pem"})
		a, b := net.Pipe()
		defer b.Close() //nolint:errcheck // in memory
		conn := id.links.add(a)
		check := func(wantChanged bool) {
			t.Helper()
			if changed, err := id.Check(); changed != wantChanged {
				t.Errorf("changed %t, %v", changed, err)
			}
			time.Sleep(renewWithin)
		}
		check(false)
		if err := conn.SetDeadline(time.Time{}); err != nil {
			t.Errorf("closed although nothing had changed: %v", err)
		}
		s.server(ca, "y")
		check(true)
		if err := conn.SetDeadline(time.Time{}); err == nil {
			t.Error("it is open still")
		}
		if n := len(id.links.mu.open); n != 0 {
			t.Errorf("%d connections are not forgotten", n)
		}
	})
}

// TestAResumedSessionDoesNotOutliveItsTrust: sessions are not resumed at all.
func TestAResumedSessionDoesNotOutliveItsTrust(t *testing.T) {
	s := site{t, t.TempDir()}
	ca := authtest.NewCA(t, "ca")
	s.put("ca.pem", ca.PEM)
	s.server(ca, "x")
	id := load(t, Config{CertFile: s.dir + "/server.pem", KeyFile: s.dir + "/server.key", CAFile: s.dir + "/ca.pem", ServerName: "server"})
	server, err := id.Server(true)
	if err != nil {
		t.Fatal(err)
	}
	client := id.Client()
	client.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	for range 2 {
		if _, _, err := shake(t, server, client); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := client.ClientSessionCache.Get("server"); ok {
		t.Error("the server gave a session ticket")
	}
}

func TestWrongFilesAreNamed(t *testing.T) {
	s := site{t, t.TempDir()}
	ca := authtest.NewCA(t, "ca")
	s.put("ca.pem", ca.PEM)
	s.server(ca, "x")
	s.put("none.pem", []byte("hunter2"))
	cert, key := s.dir+"/server.pem", s.dir+"/server.key"
	for _, c := range []struct {
		c    Config
		want string
	}{
		{Config{CertFile: cert}, "both must be given"},
		{Config{KeyFile: key}, "both must be given"},
		{Config{CertFile: cert, KeyFile: s.dir + "/none.pem"}, "none.pem"},
		{Config{CertFile: cert, KeyFile: s.dir + "/missing.key"}, "missing.key"},
		{Config{CAFile: s.dir + "/none.pem"}, "has no certificate"},
	} {
		if _, err := Load(c.c); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v, want %q", c.c, err, c.want)
		}
	}
	if _, err := load(t, Config{CAFile: s.dir + "/ca.pem"}).Server(false); err == nil {
		t.Error("a server without a certificate")
	}
	if _, err := load(t, Config{CertFile: cert, KeyFile: key}).Server(true); !errors.Is(err, errNoRoots) {
		t.Errorf("client certificates required of the system's authorities: %v", err)
	}
}
