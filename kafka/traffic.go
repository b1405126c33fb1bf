package kafka

import (
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/tally"
)

// Counted is the option of a client that counts what goes over its connections.
func Counted(counts *tally.Kafka) kgo.Opt { return kgo.WithHooks(traffic{counts}) }

// traffic hears of what a client does with its connections.
type traffic struct{ counts *tally.Kafka }

var (
	_ kgo.HookBrokerConnect  = traffic{}
	_ kgo.HookBrokerWrite    = traffic{}
	_ kgo.HookBrokerRead     = traffic{}
	_ kgo.HookBrokerE2E      = traffic{}
	_ kgo.HookBrokerThrottle = traffic{}
)

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (t traffic) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		t.counts.ConnectFailures.Add(1)
		return
	}
	t.counts.Connects.Add(1)
}

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (t traffic) OnBrokerWrite(_ kgo.BrokerMetadata, _ int16, n int, _, _ time.Duration, _ error) {
	t.counts.Sent.Add(int64(n))
}

// OnBrokerRead implements kgo.HookBrokerRead.
func (t traffic) OnBrokerRead(_ kgo.BrokerMetadata, _ int16, n int, _, _ time.Duration, _ error) {
	t.counts.Received.Add(int64(n))
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (t traffic) OnBrokerE2E(_ kgo.BrokerMetadata, _ int16, e kgo.BrokerE2E) {
	if e.Err() != nil {
		t.counts.RequestFailures.Add(1)
	}
}

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (t traffic) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, _ bool) {
	t.counts.Throttled.Add(int64(d))
}
