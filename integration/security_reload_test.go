//go:build synctests

package integration

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/auth/authtest"
	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/router"
)

// reloaded waits until every process has looked at its files.
func reloaded() { time.Sleep(2 * checkFiles) }

// client is the Go client with a credential.
func (s *secured) client(target string, opts ...grpc.DialOption) *client.Client {
	s.t.Helper()
	c, err := client.New([]string{"passthrough:///" + target}, client.WithDialOptions(append(opts, grpc.WithContextDialer(s.Dial))...), client.WithReadOptions(client.Any()))
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// upToDate says what is missing until so many replicas of a store are there and have everything.
func upToDate(ctx context.Context, c *client.Client, store string, replicas int) error {
	lags, err := c.Lags(ctx, store)
	if err != nil {
		return err
	}
	if len(lags) != replicas {
		return fmt.Errorf("%d replicas, want %d", len(lags), replicas)
	}
	for _, l := range lags {
		if l.OffsetLag == nil || l.GetOffsetLag() > 0 || l.GetState() != iqv1.ReplicaState_REPLICA_STATE_RUNNING {
			return fmt.Errorf("%s has %s/%d in state %s", l.GetNode(), l.GetStore(), l.GetPartition(), l.GetState())
		}
	}
	return nil
}

// renewed is when all links that were dialled before a change have been made anew.
const renewed = 12 * time.Second

// get reads the secret key at an address by a credential, over a new connection.
func (s *secured) get(address string, c credential) error {
	s.t.Helper()
	cc := s.conn(address, c)
	defer func() { _ = cc.Close() }()
	return getBy(s.t.Context(), cc)
}

func getBy(ctx context.Context, cc *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := iqv1.NewQueryServiceClient(cc).Get(ctx, &iqv1.GetRequest{Store: "counts", Key: []byte(secretKey), Policy: anyReplica()})
	if err == nil && !resp.GetFound() {
		err = errors.New("not found")
	}
	return err
}

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if status.Code(err) != want {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// The authority is replaced in the order of any rotation: trust both, sign anew, forget the old one. Nobody stops reading, and
// at the end the old certificates are refused, on connections that are open too.
func TestCertificatesAreReplacedUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecured(t)
		defer s.Close()
		s.start()
		oldPair := s.ca.Issue(t, authtest.Holder{CN: "admin"})
		old := s.by("admin", &oldPair, "")
		open := s.conn("r1:7000", old)
		defer func() { _ = open.Close() }()
		reading := func(what string, cc *grpc.ClientConn) {
			t.Helper()
			wantCode(t, what, getBy(t.Context(), cc), codes.OK)
		}
		reading("before", open)
		next := authtest.NewCA(t, "acme-2")
		both := slices.Concat(s.ca.PEM, next.PEM)
		s.write("ca.pem", both)
		reloaded()
		reading("both are trusted", open)
		next.Issue(t, routerHolder).Write(t, s.dir, "r1")
		next.Issue(t, nodeHolder("a")).Write(t, s.dir, "a")
		next.Issue(t, nodeHolder("b")).Write(t, s.dir, "b")
		reloaded()
		reading("signed anew", open)
		s.ca.PEM = both // whom callers trust
		old = s.by("admin", &oldPair, "")
		time.Sleep(renewed) // the links among the processes, too
		pair := next.Issue(t, authtest.Holder{CN: "admin"})
		anew := s.by("admin", &pair, "")
		wantCode(t, "a new certificate at the router", s.get("r1:7000", anew), codes.OK)
		wantCode(t, "a new certificate at a node", s.get("a:7070", anew), codes.OK)
		s.write("ca.pem", next.PEM)
		reloaded()
		wantCode(t, "an old certificate over an open connection", getBy(t.Context(), open), codes.Unauthenticated)
		wantCode(t, "an old certificate", s.get("r1:7000", old), codes.Unauthenticated)
		wantCode(t, "a new certificate at the end", s.get("r1:7000", anew), codes.OK)
		// The links among the processes are made anew by the new certificates: the router is a new process.
		s.router.Stop()
		s.router = s.StartRouter("r1", func(c *router.Config) {
			s.ca = next
			c.Security = s.security("r1", routerHolder, "rules.yaml")
		})
		s.Eventually(20*time.Second, "nodes report to a new router", func() error { return s.get("r1:7000", anew) })
	})
}

// Wrong files change nothing and are in the log, once, without their content; right ones are taken.
func TestWrongFilesChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecured(t)
		defer s.Close()
		var log bytes.Buffer
		s.Log = slog.New(slog.NewTextHandler(&log, nil))
		s.start()
		admin, reader := s.admin(), s.by("reader", nil, s.tokenOf("reader"))
		for _, name := range []string{"r1.pem", "a.key", "ca.pem", "rules.yaml", "keys.json"} {
			s.write(name, []byte("hunter2: ["))
			reloaded()
			reloaded()
			wantCode(t, "admin with a broken "+name, s.get("r1:7000", admin), codes.OK)
			wantCode(t, "reader with a broken "+name, s.get("r1:7000", reader), codes.OK)
		}
		s.Close()
		text := log.String()
		if n := strings.Count(text, "changed files are not taken"); n == 0 || strings.Contains(text, "hunter2") {
			t.Errorf("%d errors are logged, or they have what stands in the files", n)
		}
		for _, c := range []credential{reader} {
			if strings.Contains(text, c.token) {
				t.Error("a token is in the log")
			}
		}
	})
}

// What is withdrawn ends, also where it had begun: a watch by the rules, one by the end of its token, and one by its key.
func TestOpenWatchesEndWithWhatAllowedThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecured(t)
		defer s.Close()
		s.start()
		producer := s.Client()
		defer producer.Close()
		// change makes every open watch have something to send.
		change := func() {
			t.Helper()
			if err := bubble.Produce(t.Context(), producer, "in", secretKey, "x"); err != nil {
				t.Fatal(err)
			}
		}
		watch := func(address string, c credential) (*grpc.ClientConn, iqv1.QueryService_WatchClient) {
			t.Helper()
			cc := s.conn(address, c)
			w, err := iqv1.NewQueryServiceClient(cc).Watch(t.Context(), &iqv1.WatchRequest{Selection: secretSelection, Policy: anyReplica()})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Recv(); err != nil {
				t.Fatalf("%s at %s: %v", c.name, address, err)
			}
			return cc, w
		}
		ends := func(what string, w iqv1.QueryService_WatchClient, want codes.Code) {
			t.Helper()
			for range 100 {
				if _, err := w.Recv(); err != nil {
					wantCode(t, what, err, want)
					return
				}
			}
			t.Errorf("%s: it goes on", what)
		}
		for _, address := range []string{"r1:7000", s.activeOf(secretKey)} {
			short := s.by("short token", nil, s.signer.Token(t, claims("reader", time.Minute)))
			ccShort, byShort := watch(address, short)
			ccAdmin, byAdmin := watch(address, s.admin())
			time.Sleep(time.Minute + 31*time.Second) // and the clocks' skew
			change()
			ends("its token has expired", byShort, codes.Unauthenticated)
			_ = ccShort.Close()

			ccLong, byLong := watch(address, s.by("long token", nil, s.tokenOf("reader")))
			s.write("rules.yaml", []byte(strings.ReplaceAll(securityRules, `{who: ["sub:reader"], allow: [read, watch`, `{who: ["sub:reader"], allow: [read`)))
			reloaded()
			change()
			ends("the rule has gone", byLong, codes.PermissionDenied)
			_ = ccLong.Close()
			s.write("rules.yaml", []byte(securityRules))
			reloaded()

			ccKey, byKey := watch(address, s.by("token", nil, s.tokenOf("reader")))
			s.write("keys.json", authtest.KeySet(t, authtest.NewSigner(t, "ES256", "k2")))
			reloaded()
			change()
			ends("its key is known no more", byKey, codes.Unauthenticated)
			_ = ccKey.Close()
			s.write("keys.json", authtest.KeySet(t, s.signer))
			reloaded()

			change()
			if _, err := byAdmin.Recv(); err != nil {
				t.Errorf("somebody else's watch ended too: %v", err)
			}
			_ = ccAdmin.Close()
		}
	})
}

// activeOf is the address of the node that runs the key's partition.
func (s *secured) activeOf(key string) string {
	s.t.Helper()
	c := s.client("r1:7000", s.admin().options...)
	defer func() { _ = c.Close() }()
	in, err := c.QueryKey(s.t.Context(), "counts", []byte(key))
	if err != nil || len(in) != 1 || in[0].GetActive() == nil {
		s.t.Fatalf("%v, %v", in, err)
	}
	return in[0].GetActive().GetAddress()
}

// A node judges the caller of a router by its own rules, and believes nobody but a router.
func TestNodesJudgeTheCallersOfRouters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecured(t)
		defer s.Close()
		s.start()
		reader := s.by("reader", nil, s.tokenOf("reader"))
		wantCode(t, "the router and the nodes agree", s.get("r1:7000", reader), codes.OK)
		// The router's rules are another file, which allows more.
		s.write("open.yaml", []byte(securityRules+`  - {who: ["cn:stranger"], allow: [read], stores: [counts]}`+"\n"))
		s.router.Stop()
		s.router = s.StartRouter("r1", func(c *router.Config) { c.Security = s.security("r1", routerHolder, "open.yaml") })
		s.Eventually(20*time.Second, "nodes report again", func() error { return s.get("r1:7000", reader) })
		stranger := s.certificate("stranger", authtest.Holder{CN: "stranger"})
		wantCode(t, "the nodes' rules do not allow what the router's do", s.get("r1:7000", stranger), codes.PermissionDenied)
		// A router that is none by the nodes' rules: its callers are not to blame, and it is as if no node were there.
		s.router.Stop()
		s.router = s.StartRouter("r1", func(c *router.Config) {
			c.Security = s.security("r1", authtest.Holder{CN: "iqproxy", DNS: []string{"r1"}}, "rules.yaml")
		})
		s.Eventually(20*time.Second, "the router's fault is told as such", func() error {
			if err := s.get("r1:7000", reader); status.Code(err) != codes.Unavailable || !strings.Contains(status.Convert(err).Proto().String(), "credentials") {
				return fmt.Errorf("got %w", err)
			}
			return nil
		})
	})
}

// ListStores tells each caller of its own stores, at nodes and routers.
func TestListStoresTellsOfOwnStoresAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecured(t)
		defer s.Close()
		s.start()
		for _, address := range []string{"r1:7000", "a:7070"} {
			for want, c := range map[string]credential{
				"counts": s.by("reader", nil, s.tokenOf("reader")), "": s.certificate("stranger", authtest.Holder{CN: "stranger"}),
			} {
				cc := s.conn(address, c)
				resp, err := iqv1.NewMetadataServiceClient(cc).ListStores(t.Context(), &iqv1.ListStoresRequest{})
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, st := range resp.GetStores() {
					names = append(names, st.GetName())
				}
				if got := strings.Join(names, " "); got != want {
					t.Errorf("%s at %s is told of %q, want %q", c.name, address, got, want)
				}
				_ = cc.Close()
			}
		}
	})
}

// Who asks for a store that there is not is told of its own stores, and not of those that there are: by each method, at nodes and
// routers.
func TestUnknownStoreTellsOfOwnStoresAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecured(t)
		defer s.Close()
		s.start()
		get, selection := &iqv1.GetRequest{Store: "others", Key: []byte("k")}, &iqv1.Selection{Store: "others"}
		requests := map[string]proto.Message{
			"/iq.v1.QueryService/Get": get, "/iq.v1.QueryService/Lookups": &iqv1.LookupsRequest{Lookups: []*iqv1.Lookup{{Get: get}}},
			"/iq.v1.QueryService/MultiGet": &iqv1.MultiGetRequest{Store: "others", Keys: [][]byte{{1}}},
			"/iq.v1.QueryService/Scan":     &iqv1.ScanRequest{Selection: selection}, "/iq.v1.QueryService/Count": &iqv1.CountRequest{Selection: selection},
			"/iq.v1.QueryService/Watch":            &iqv1.WatchRequest{Selection: selection},
			"/iq.v1.MetadataService/ListInstances": &iqv1.ListInstancesRequest{Store: "others"},
			"/iq.v1.MetadataService/QueryKey":      &iqv1.QueryKeyRequest{Store: "others"},
			"/iq.v1.MetadataService/ListLags":      &iqv1.ListLagsRequest{Store: "others"},
			"/iq.v1.MetadataService/WatchMetadata": &iqv1.WatchMetadataRequest{Store: "others"},
		}
		methods := allMethods()
		for _, address := range []string{"r1:7000", "a:7070"} {
			for _, c := range []credential{s.by("other", nil, s.tokenOf("other")), s.admin()} {
				cc := s.conn(address, c)
				for name, request := range requests {
					err := callMethod(t.Context(), cc, name, methods[name], request)
					e, ok := errors.AsType[*iqerr.StoreUnknownError](iqerr.FromStatus(err))
					if tells := strings.Contains(status.Convert(err).Proto().String(), "counts"); !ok || e.Store != "others" || tells != (c.name == "admin") {
						t.Errorf("%s at %s by %s: %v", name, address, c.name, status.Convert(err).Proto())
					}
				}
				resp, err := iqv1.NewMetadataServiceClient(cc).Explain(t.Context(), &iqv1.ExplainRequest{Get: get})
				if err != nil || resp.GetReason() != iqv1.Reason_REASON_STORE_UNKNOWN || strings.Contains(resp.String(), "counts") {
					t.Errorf("Explain at %s by %s: %v, %v", address, c.name, resp, err)
				}
				_ = cc.Close()
			}
		}
	})
}

// The Go client by its own options, through the router and straight to the nodes.
func TestGoClientShowsCertificateOrToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecured(t)
		defer s.Close()
		s.start()
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(s.ca.PEM)
		tokenFile := s.write("token", []byte(s.signer.Token(t, map[string]any{
			"iss": "https://login.acme.com", "aud": "iqgate", "sub": "alice", "groups": []string{"admins"}, "exp": time.Now().Add(time.Hour).Unix(),
		})+"\n"))
		for name, opts := range map[string][]client.Option{
			"token":      {client.WithToken(func(context.Context) (string, error) { return s.tokenOf("reader"), nil })},
			"token file": {client.WithTokenFile(tokenFile)},
			"direct":     {client.WithTokenFile(tokenFile), client.WithDirect()},
		} {
			c, err := client.New([]string{"passthrough:///r1:7000"}, append(opts, client.WithTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}),
				client.WithDialOptions(grpc.WithContextDialer(s.Dial)))...)
			if err != nil {
				t.Fatal(err)
			}
			if name == "direct" {
				if err := c.WaitForView(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			res, err := c.Get(t.Context(), "counts", []byte(secretKey), client.Any())
			if err != nil || !res.Found || (res.Way == client.WayDirect) != (name == "direct") {
				t.Errorf("%s: %+v, %v", name, res, err)
			}
			_ = c.Close()
		}
		if _, err := client.New([]string{"r1:7000"}, client.WithTokenFile(tokenFile)); err == nil {
			t.Error("a token was to be sent without TLS")
		}
	})
}
