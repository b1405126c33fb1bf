//go:build synctests

package integration

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/integration/bubble"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// healthOf asks for the process, its queries and its metadata; a service that there is not is unknown.
func healthOf(t *testing.T, cc grpc.ClientConnInterface) string {
	t.Helper()
	said := ""
	for _, service := range []string{"", iqv1.QueryService_ServiceDesc.ServiceName, iqv1.MetadataService_ServiceDesc.ServiceName, "iq.v1.Nobody"} {
		resp, err := healthpb.NewHealthClient(cc).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		switch {
		case status.Code(err) == codes.NotFound:
			said += " unknown"
		case err != nil:
			t.Fatal(err)
		default:
			said += " " + resp.GetStatus().String()
		}
	}
	return said[1:]
}

// A node serves queries from its first assignment on, which is later than it has found Kafka, and a router from the first
// report of stores on.
func TestHealthOfEachService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topology: table, Routers: []string{"r"}, Log: verboseLog(t)})
		cl := c.Client()
		defer func() { cl.Close(); c.Close() }()
		c.StartRouter("r")
		n := c.StartNode("a") // its topic does not exist
		conns := map[string]*grpc.ClientConn{"node": c.Conn(n.Address), "router": c.Conn("r:7000")}
		defer func() {
			for _, cc := range conns {
				_ = cc.Close()
			}
		}()
		time.Sleep(5 * time.Second)
		const none, all = "NOT_SERVING NOT_SERVING NOT_SERVING unknown", "SERVING SERVING SERVING unknown"
		for who, cc := range conns {
			if got := healthOf(t, cc); got != none {
				t.Errorf("%s without topics: %s, want %s", who, got, none)
			}
		}
		if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "in"); err != nil {
			t.Fatal(err)
		}
		c.Eventually(30*time.Second, "all is served", func() error {
			for who, cc := range conns {
				if got := healthOf(t, cc); got != all {
					return fmt.Errorf("%s: %s", who, got)
				}
			}
			return nil
		})
	})
}
