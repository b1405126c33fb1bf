package main

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"time"

	"google.golang.org/grpc"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/iqgate/iqgate/auth"
	"github.com/iqgate/iqgate/cmd/internal/build"
	"github.com/iqgate/iqgate/dashboard"
	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/router"
	"github.com/iqgate/iqgate/routing"
	"github.com/iqgate/iqgate/tally"
)

// newDashboard makes the web page of a router. Who may watch all of its metadata may see it, and who may watch that of one store
// may see that.
func newDashboard(r *router.Router, c router.Config) (*dashboard.Dashboard, error) {
	unary, _ := c.Security.Interceptors()
	return dashboard.New(dashboard.Config{
		View: r.View, Reads: readLog{r}, Logger: c.Logger, Authorize: authorizeBy(unary),
		Router: func() dashboard.Router {
			return dashboard.Router{Name: r.Tally(time.Now()).Name, Version: build.Short(), DefaultPolicy: defaultPolicy(c)}
		},
	})
}

// asCaller has a handler's requests carry who made them, as the calls of gRPC do: the connection, and a token.
func asCaller(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &peer.Peer{}
		if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
			p.Addr = net.TCPAddrFromAddrPort(at)
		}
		if r.TLS != nil {
			p.AuthInfo = auth.Connection(*r.TLS)
		}
		ctx := peer.NewContext(r.Context(), p)
		if tokens := r.Header.Values("Authorization"); len(tokens) > 0 {
			ctx = grpcmetadata.NewIncomingContext(ctx, grpcmetadata.MD{"authorization": tokens})
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// defaultPolicy is the policy of reads that name none, in words.
func defaultPolicy(c router.Config) string {
	if c.DefaultPolicy.Mode == 0 {
		return routing.ModeActive.String()
	}
	return c.DefaultPolicy.String()
}

// authorizeBy judges a request that asCaller has passed on as a call of WatchMetadata by the same caller. It is nil where everybody
// may do everything.
func authorizeBy(unary grpc.UnaryServerInterceptor) func(*http.Request, string) error {
	if unary == nil {
		return nil
	}
	info := &grpc.UnaryServerInfo{FullMethod: iqv1.MetadataService_WatchMetadata_FullMethodName}
	nothing := func(context.Context, any) (any, error) { return struct{}{}, nil }
	return func(r *http.Request, store string) error {
		if _, err := unary(r.Context(), &iqv1.WatchMetadataRequest{Store: store}, info, nothing); err != nil {
			return refusedRequest(err)
		}
		return nil
	}
}

// refusedRequest is a refusal of the guard as the page's caller gets it.
func refusedRequest(err error) error {
	reason := iqerr.ReasonOf(err)
	refused := &dashboard.RefusedError{Refusal: dashboard.Refusal{Reason: iqerr.Name(reason), Message: iqerr.FromStatus(err).Error()}}
	switch reason { //nolint:exhaustive // a guard gives no others
	case iqv1.Reason_REASON_UNAUTHENTICATED:
		refused.Status = http.StatusUnauthorized
	case iqv1.Reason_REASON_PERMISSION_DENIED:
		refused.Status = http.StatusForbidden
	default:
		return err
	}
	return refused
}

// readLog is what a router's reads meet, in the words of the page.
type readLog struct{ router *router.Router }

// Counts sums over policies and stores.
func (l readLog) Counts() dashboard.Counts {
	t := l.router.Tally(time.Now())
	c := dashboard.Counts{FailedOver: t.Failovers.Load(), Refused: map[string]int64{}}
	for _, store := range t.Reads.Stores() {
		c.Stale += store.Stale()
		store.Each(func(_ tally.Policy, role metadata.Role, outcome tally.Outcome, n int64) {
			switch {
			case outcome == tally.OK && role == metadata.RoleActive:
				c.Active += n
			case outcome == tally.OK && role == 0:
				c.Nowhere += n
			case outcome == tally.OK:
				c.Copies += n
			case outcome >= tally.Canceled:
				c.Failed += n
			default:
				c.Refused[iqerr.Name(iqv1.Reason(outcome))] += n
			}
		})
	}
	return c
}

// Recent are the lookups that the router has kept.
func (l readLog) Recent() []dashboard.Read {
	kept := l.router.RecentReads()
	list := make([]dashboard.Read, 0, len(kept))
	for i := range kept {
		list = append(list, readOf(&kept[i]))
	}
	return list
}

func readOf(k *router.RecentRead) dashboard.Read {
	r := dashboard.Read{
		Sequence: k.Sequence, AtMs: k.Began.Add(k.Took).UnixMilli(), Store: k.Store, Partition: max(k.Partition, -1), Policy: k.Policy.String(),
		Node: string(k.Node), Found: k.Found, Reason: k.Reason, Message: k.Message, Offsets: k.OffsetLag, LagMs: metadata.LagUnknown,
		TookMs: dashboard.Millis(k.Took), Sampled: k.Sampled,
	}
	if k.Role != 0 {
		r.Role = k.Role.String()
	}
	if k.TimeLag != metadata.LagUnknown {
		r.LagMs = dashboard.Millis(k.TimeLag)
	}
	for _, a := range k.Attempts {
		r.Attempts = append(r.Attempts, dashboard.Attempt{
			Node: a.GetNode(), Reason: a.GetReason(), Message: a.GetMessage(), TookMs: dashboard.Millis(a.GetElapsed().AsDuration()),
		})
	}
	return r
}
