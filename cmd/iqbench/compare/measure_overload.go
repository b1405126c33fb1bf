package compare

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// overloadFactor is how many times as many lookups are in flight as give a node's best rate; over as many times as many
// connections, for a caller's own connection bounds what it has in flight.
const overloadFactor = 10

// overload asks a node for more than it can do, beside its best rate.
type overload struct{}

func (overload) gives() []string { return []string{fOverRate, fOverP99, fOverMemory, fBestRate} }

func (overload) take(ctx context.Context, r *run) error {
	s, err := r.routed(ctx)
	if err != nil {
		return err
	}
	l := load{conns: loadConns, inFlight: loadInFlight, warm: r.size.warm, length: r.size.length}
	best, err := l.run(ctx, s.node.address, r.requests)
	if err != nil {
		return err
	}
	r.give(fBestRate, best.rate)
	l.conns *= overloadFactor
	l.failuresOK = true
	over, err := l.run(ctx, s.node.address, r.requests)
	if err != nil {
		return err
	}
	if over.first != nil && status.Code(over.first) != codes.ResourceExhausted {
		return fmt.Errorf("a lookup under overload failed with something else than a refusal: %w", over.first)
	}
	r.sayRate(fmt.Sprintf("a node with %d times as many lookups in flight", overloadFactor), over, 0)
	r.give(fOverRate, over.rate)
	r.give(fOverP99, micros(over.p99)/1000)
	peak, err := peakMemory(s.node.proc.PID())
	if err != nil {
		return err
	}
	r.give(fOverMemory, peak)
	return nil
}
