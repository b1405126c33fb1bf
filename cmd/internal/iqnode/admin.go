package iqnode

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/cmd/internal/admin"
	"github.com/iqgate/iqgate/metrics"
	"github.com/iqgate/iqgate/node"
)

// openAdmin takes the address of the port for operators; nil when there is to be none.
func (s *settings) openAdmin(ctx context.Context, n *node.Node, log *slog.Logger) (*admin.Server, error) {
	status := func(now time.Time) admin.Status {
		t := n.Tally(now)
		return admin.NodeStatus(&t, s.admin.ReadyWhen, s.node.AcceptableLag, now)
	}
	return s.admin.Open(ctx, "iqnode", metrics.NewNode(n.Tally), status, &s.log.Level, log)
}

// kafkaLog is the Kafka client's log. It speaks at the level debug alone, which may be set while the program runs.
type kafkaLog struct {
	kgo.Logger
	level *slog.LevelVar
}

// Level implements kgo.Logger.
func (l kafkaLog) Level() kgo.LogLevel {
	if l.level.Level() > slog.LevelDebug {
		return kgo.LogLevelNone
	}
	return l.Logger.Level()
}
