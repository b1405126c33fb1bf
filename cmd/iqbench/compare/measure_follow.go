package compare

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/iqgate/iqgate/integration/process"
)

// followYAML is a node in replica mode behind the peer.
const followYAML = `application: %s
replicas: 1
stores:
  - {store: ` + store + `, key_serde: string, value_serde: int64}
`

// follower is a node in replica mode that follows an application's changelog, not yet started.
func (r *run) follower(app string) (*member, error) {
	file := r.file(app + "-replica.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, followYAML, app), 0o600); err != nil {
		return nil, err
	}
	address, err := process.Address()
	if err != nil {
		return nil, err
	}
	args := []string{
		"--node-id", "follower", "--replica", file, "--brokers", r.brokers, "--state-dir", r.stateOf(app, "follower"), "--listen", address,
		"--log-level", "warn",
	}
	return &member{name: app + " follower", address: address, spec: process.Spec{Path: filepath.Join(r.bin, "iqnode"), Args: args, Log: r.file(app + "-follower.log")}}, nil
}

// follow measures how fast a node in replica mode applies what an application of Kafka Streams has written, from nothing.
func (r *run) follow(ctx context.Context, app string) error {
	if !r.wants(fFollow) {
		return nil
	}
	m, err := r.follower(app)
	if err != nil {
		return err
	}
	defer m.kill()
	begin := time.Now()
	if err := r.start(m); err != nil {
		return err
	}
	rate, err := r.restoreRate(ctx, m, app, begin)
	if err != nil {
		return err
	}
	r.sayRecords(m.name+": followed", rate)
	r.give(fFollow, rate)
	return nil
}
