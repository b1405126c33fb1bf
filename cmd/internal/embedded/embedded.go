// Package embedded is a Kafka for demos and measurements that need nothing installed: kfake, to be run in a process of its
// own, because strange requests to its port end it.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Listening is what Run prints before its address, after its own name.
const Listening = " listening at "

// The broker's port is below the ephemeral range: there an outgoing connection of anybody could take it between two looks.
const (
	portLow  = 20000
	portHigh = 32767
	portTry  = 100
)

// Run says on out where it listens and keeps everything in memory until ctx ends. Its compaction and its wait for more
// members at a first join are off: the one loses records, the other only time.
func Run(ctx context.Context, out io.Writer) error {
	var errs error
	for range portTry {
		port := portLow + rand.IntN(portHigh-portLow+1) //nolint:gosec // a port, no secret
		k, err := kfake.NewCluster(
			kfake.NumBrokers(1), kfake.Ports(port), kfake.GroupMinSessionTimeout(time.Second),
			kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": "315360000000", "group.initial.rebalance.delay.ms": "0"}),
		)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		defer k.Close()
		_, err = fmt.Fprintf(out, "embedded kafka%s%s\n", Listening, k.ListenAddrs()[0])
		if err == nil {
			<-ctx.Done()
		}
		return err
	}
	return fmt.Errorf("no free port in %d tries: %w", portTry, errs)
}
