//go:build synctests

package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/auth/authtest"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// methodRow says what a method is asked in TestEveryMethodOfEveryService, and who may.
type methodRow struct {
	request proto.Message
	text    string // in place of request, in protocol buffers' text format
	public  bool   // everybody may
	known   bool   // everybody may who is known
	allowed []string
	// any says that who may gets whatever the method answers.
	any bool
	// router and node are what those get who may. OK unless given.
	router, node codes.Code
}

var (
	secretSelection = &iqv1.Selection{Store: "counts", Keys: &iqv1.Selection_Key{Key: []byte(secretKey)}}
	replayed        = &iqv1.HeartbeatRequest{
		Node: "b", Incarnation: 1 << 62, Sequence: 1 << 40, Application: "counts-app", Address: "evil:7070", Full: true, Interval: durationpb.New(time.Second),
	}
)

// methodRows has a row for each method of each service, or the test fails.
var methodRows = map[string]methodRow{
	"/iq.v1.QueryService/Get": {request: &iqv1.GetRequest{Store: "counts", Key: []byte(secretKey), Policy: anyReplica()}, allowed: []string{"reader", "admin"}},
	"/iq.v1.QueryService/Lookups": {
		request: &iqv1.LookupsRequest{Lookups: []*iqv1.Lookup{{Id: 1, Get: &iqv1.GetRequest{Store: "counts", Key: []byte(secretKey), Policy: anyReplica()}}}},
		allowed: []string{"reader", "admin"},
	},
	"/iq.v1.QueryService/MultiGet": {request: &iqv1.MultiGetRequest{Store: "counts", Keys: [][]byte{[]byte(secretKey), []byte("al")}, Policy: anyReplica()}, allowed: []string{"reader", "admin"}},
	"/iq.v1.QueryService/Scan":     {request: &iqv1.ScanRequest{Selection: secretSelection, Policy: anyReplica()}, allowed: []string{"reader", "admin"}},
	"/iq.v1.QueryService/Count":    {request: &iqv1.CountRequest{Selection: secretSelection, Policy: anyReplica()}, allowed: []string{"reader", "admin"}},
	"/iq.v1.QueryService/Watch":    {request: &iqv1.WatchRequest{Selection: secretSelection, Policy: anyReplica()}, allowed: []string{"reader", "admin"}},

	"/iq.v1.MetadataService/QueryKey":      {request: &iqv1.QueryKeyRequest{Store: "counts", Key: []byte(secretKey)}, allowed: []string{"reader", "admin"}},
	"/iq.v1.MetadataService/Explain":       {request: &iqv1.ExplainRequest{Get: &iqv1.GetRequest{Store: "counts", Key: []byte(secretKey)}}, allowed: []string{"reader", "admin"}},
	"/iq.v1.MetadataService/ListInstances": {request: &iqv1.ListInstancesRequest{}, allowed: []string{"admin"}},
	"/iq.v1.MetadataService/ListStores":    {request: &iqv1.ListStoresRequest{}, known: true}, // each caller its own
	"/iq.v1.MetadataService/ListLags":      {request: &iqv1.ListLagsRequest{Store: "counts"}, allowed: []string{"admin"}},
	"/iq.v1.MetadataService/WatchMetadata": {request: &iqv1.WatchMetadataRequest{}, allowed: []string{"admin"}},

	// The report is of node b, whose credentials nobody here has: node a has recorded it and plays it back.
	"/iq.v1.ControlService/Heartbeat": {request: replayed},
	"/iq.v1.ControlService/Drain":     {request: &iqv1.DrainRequest{Node: "nobody"}, allowed: []string{"operator"}, router: codes.NotFound, node: codes.InvalidArgument},

	// What nodes ask of one another, played back by node a as node b's.
	"/iq.v1.SnapshotService/Offer": {text: `node: "b" identity {store: "counts"}`},
	"/iq.v1.SnapshotService/Copy":  {text: `node: "b" identity {store: "counts"}`},

	"/iq.v1.VerifyService/VerifyReplica": {text: `store: "counts"`},
	"/iq.v1.VerifyService/PinState":      {text: `store: "counts"`, allowed: []string{"operator"}, any: true},
	"/iq.v1.VerifyService/DigestState":   {allowed: []string{"operator"}, any: true},

	"/grpc.health.v1.Health/Check": {request: &healthpb.HealthCheckRequest{}, public: true},
	"/grpc.health.v1.Health/Watch": {request: &healthpb.HealthCheckRequest{}, public: true},
	"/grpc.health.v1.Health/List":  {request: &healthpb.HealthListRequest{}, known: true},

	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": {
		request: &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}, known: true,
	},
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": {
		request: &reflectionalphapb.ServerReflectionRequest{MessageRequest: &reflectionalphapb.ServerReflectionRequest_ListServices{}}, known: true, //nolint:staticcheck // it is served
	},
}

// allMethods are the methods of the services that nodes and routers have, as the generated code describes them.
func allMethods() map[string]protoreflect.MethodDescriptor {
	all := map[string]protoreflect.MethodDescriptor{}
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		ours := f.Package() == "iq.v1" || strings.HasPrefix(string(f.Package()), "grpc.health.") || strings.HasPrefix(string(f.Package()), "grpc.reflection.")
		for i := 0; ours && i < f.Services().Len(); i++ {
			service := f.Services().Get(i)
			for j := range service.Methods().Len() {
				m := service.Methods().Get(j)
				all["/"+string(service.FullName())+"/"+string(m.Name())] = m
			}
		}
		return true
	})
	return all
}

// requestTo is what the method is asked.
func (r methodRow) requestTo(t *testing.T, m protoreflect.MethodDescriptor) proto.Message {
	t.Helper()
	if r.request != nil {
		return r.request
	}
	in, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
	if err != nil {
		t.Fatal(err)
	}
	request := in.New().Interface()
	if err := prototext.Unmarshal([]byte(r.text), request); err != nil {
		t.Fatal(err)
	}
	return request
}

// serviceKnown says whether the service of a method is built in.
func serviceKnown(name string) bool {
	service, _, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	_, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	return err == nil
}

// callMethod calls a method and gives the error, of the call or of its first answer.
func callMethod(ctx context.Context, cc *grpc.ClientConn, name string, m protoreflect.MethodDescriptor, request proto.Message) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
	if err != nil {
		return err
	}
	response := out.New().Interface()
	if !m.IsStreamingClient() && !m.IsStreamingServer() {
		return cc.Invoke(ctx, name, request, response)
	}
	stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: m.IsStreamingServer(), ClientStreams: m.IsStreamingClient()}, name)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !m.IsStreamingClient() {
		if err := stream.CloseSend(); err != nil {
			return err
		}
	}
	if err := stream.RecvMsg(response); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return answeredWith(response)
}

// answeredWith is the error inside an answer that has one.
func answeredWith(answer proto.Message) error {
	if m, ok := answer.(*iqv1.LookupsResponse); ok && len(m.GetAnswers()) > 0 && m.GetAnswers()[0].GetError() != nil {
		e := m.GetAnswers()[0].GetError()
		return status.FromProto(&spb.Status{Code: e.GetCode(), Message: e.GetMessage(), Details: e.GetDetails()}).Err()
	}
	return nil
}

// TestEveryMethodOfEveryService calls each method at a router and at a node with each kind of credentials.
func TestEveryMethodOfEveryService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecured(t)
		defer s.Close()
		s.start()
		otherCA, unknownSigner := authtest.NewCA(t, "acme"), authtest.NewSigner(t, "ES256", "k1")
		pair := func(ca *authtest.CA, h authtest.Holder) *authtest.Pair { p := ca.Issue(t, h); return &p }
		past := claims("reader", -time.Minute)
		// Who is not known, whatever the token or certificate says of itself.
		unknown := []credential{
			s.by("nothing", nil, ""),
			s.by("certificate of another authority", pair(otherCA, authtest.Holder{CN: "admin"}), ""),
			s.by("router's certificate of another authority", pair(otherCA, routerHolder), "", "cn:admin"),
			s.by("expired certificate", pair(s.ca, authtest.Holder{CN: "admin", NotAfter: time.Now().Add(-time.Hour)}), ""),
			s.by("certificate for servers alone", pair(s.ca, authtest.Holder{CN: "admin", ServerOnly: true}), ""),
			s.by("expired token", nil, s.signer.Token(t, past)),
			s.by("expired token beside a good certificate", pair(s.ca, authtest.Holder{CN: "admin"}), s.signer.Token(t, past)),
			s.by("token of an unknown key", nil, unknownSigner.Token(t, claims("reader", time.Hour))),
			s.by("token without a signature", nil, authtest.Unsigned(t, claims("reader", time.Hour))),
			s.by("token signed with the public key as a secret", nil, authtest.SignedWith(t, authtest.KeySet(t, s.signer), "k1", claims("reader", time.Hour))),
			s.by("no token but something", nil, "hunter2"),
			s.by("another caller's names", nil, s.tokenOf("reader"), "cn:admin"),
			s.by("another caller's names by a node", pair(s.ca, nodeHolder("a")), "", "cn:admin"),
		}
		// Who is known, and may not.
		others := []credential{
			s.certificate("stranger", authtest.Holder{CN: "stranger"}),
			s.by("token for another store", nil, s.tokenOf("other")),
			s.by("token of another principal", nil, s.tokenOf("cn:admin")),
			s.by("reader", nil, s.tokenOf("reader")),
			s.admin(),
			s.certificate("operator", authtest.Holder{CN: "operator"}),
			s.certificate("node a", nodeHolder("a")),
			s.certificate("router", routerHolder),
			s.by("router for a stranger", pair(s.ca, routerHolder), "", "cn:stranger"),
		}
		methods := allMethods()
		for name := range methodRows {
			if methods[name] == nil && serviceKnown(name) {
				t.Errorf("%s: there is no such method any more", name)
			}
		}
		calls := 0
		for target, address := range map[string]string{"router": s.router.Address, "node": s.nodes["a"].Address} {
			for _, c := range append(slices.Clone(unknown), others...) {
				cc := s.conn(address, c)
				for name, m := range methods {
					row, ok := methodRows[name]
					if !ok {
						t.Fatalf("%s has no row in methodRows: say what it is asked and who may, here and in package auth", name)
					}
					got := callMethod(t.Context(), cc, name, m, row.requestTo(t, m))
					calls++
					checkCall(t, target, name, row, c, slices.ContainsFunc(others, func(o credential) bool { return o.name == c.name }), got)
				}
				_ = cc.Close()
			}
			cc := s.conn(address, plaintext())
			if err := callMethod(t.Context(), cc, "/grpc.health.v1.Health/Check", methods["/grpc.health.v1.Health/Check"], &healthpb.HealthCheckRequest{}); status.Code(err) != codes.Unavailable {
				t.Errorf("without TLS: %v", err)
			}
			_ = cc.Close()
		}
		t.Logf("%d calls", calls)
	})
}

func checkCall(t *testing.T, target, name string, row methodRow, c credential, isKnown bool, got error) {
	t.Helper()
	at := fmt.Sprintf("%s at %s, %s", name, target, c.name)
	want := row.router
	if target == "node" {
		want = row.node
	}
	switch code := status.Code(got); {
	case code == codes.Unimplemented && !served(target, name):
		return // nobody gets anything of it
	case row.public, isKnown && row.known, slices.Contains(row.allowed, c.name):
		if code != want && !row.any || code == codes.Unauthenticated || code == codes.PermissionDenied {
			t.Errorf("%s: %v, want %v", at, got, want)
		}
		return
	case !isKnown:
		want = codes.Unauthenticated
	default:
		want = codes.PermissionDenied
	}
	if status.Code(got) != want {
		t.Errorf("%s: %v, want %v", at, got, want)
		return
	}
	reason := iqv1.Reason_REASON_UNAUTHENTICATED
	if isKnown {
		reason = iqv1.Reason_REASON_PERMISSION_DENIED
	}
	if iqerr.ReasonOf(got) != reason {
		t.Errorf("%s: reason %v, want %v", at, iqerr.ReasonOf(got), reason)
	}
	told := status.Convert(got).Proto().String()
	for _, secret := range append([]string{secretKey, secretValue, "others", "evil"}, strings.Split(c.token, ".")...) {
		if secret != "" && strings.Contains(told, secret) {
			t.Errorf("%s: the error tells of %q: %s", at, secret, told)
		}
	}
}

// served says whether the target has the method.
func served(target, name string) bool {
	switch {
	case target == "node":
		return name != "/iq.v1.ControlService/Heartbeat" && name != "/iq.v1.QueryService/Lookups"
	case strings.HasPrefix(name, "/iq.v1.SnapshotService/"), strings.HasPrefix(name, "/iq.v1.VerifyService/"):
		return false
	}
	return true
}
