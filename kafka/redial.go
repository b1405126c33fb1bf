package kafka

import (
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// redialPause is how long a connection that could not be made holds up who wanted it. The client pauses between two tries
// of most requests, but not when it adds partitions to a transaction: while the transaction's coordinator refuses
// connections it would dial without end, on a whole core.
const redialPause = retryMin

// A redialer makes each failed connection of a Kafka client take redialPause.
type redialer struct{}

var _ kgo.HookBrokerConnect = redialer{}

// OnBrokerConnect implements kgo.HookBrokerConnect. The client calls it in line, before the error is seen.
func (redialer) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil {
		return
	}
	t := time.NewTimer(redialPause)
	defer t.Stop()
	<-t.C
}
