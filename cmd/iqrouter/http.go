package main

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/iqgate/iqgate/dashboard"
	"github.com/iqgate/iqgate/gateway"
	"github.com/iqgate/iqgate/gateway/local"
	"github.com/iqgate/iqgate/router"
)

// front is the HTTP side of the router. A nil one is off.
type front struct {
	gateway   *gateway.Gateway
	dashboard *dashboard.Dashboard
	calls     *local.Server
}

// newFront makes the HTTP side of a router, which it asks within the process and by the same rules.
func newFront(listen string, r *router.Router, c router.Config) (*front, error) {
	if listen == "" {
		return nil, nil //nolint:nilnil // off
	}
	tls, err := c.Security.HTTPConfig()
	if err != nil {
		return nil, err
	}
	calls := local.New(c.Security.Interceptors())
	r.Register(calls)
	page, err := newDashboard(r, c)
	if err != nil {
		return nil, err
	}
	g, err := gateway.New(gateway.Config{
		Calls: calls, Listen: listen, TLS: tls, Logger: c.Logger, StreamIdle: c.ScanIdle, StopTimeout: c.StopTimeout,
		Rest: asCaller(page), // whatever is neither under /v1/ nor /openapi.json
	})
	return &front{gateway: g, dashboard: page, calls: calls}, err
}

// run serves until ctx ends, and says where. It returns after the last call to the router.
func (f *front) run(ctx context.Context, stdout io.Writer) error {
	if f == nil {
		<-ctx.Done()
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, f.dashboard.Close)() // pages that are open would hold the gateway's end up
	g.Go(func() error {
		defer f.calls.Wait()
		return f.gateway.Run(ctx)
	})
	g.Go(func() error {
		address, err := f.gateway.Address(ctx)
		if err != nil {
			return nil //nolint:nilerr // it ended before it listened; Run says why
		}
		_, err = fmt.Fprintf(stdout, "iqrouter http at %s\n", address)
		return err
	})
	return g.Wait()
}
