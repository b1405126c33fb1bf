package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/store"
)

// Bounds of what is sent to other nodes.
const (
	// copyPiece is about the size of a message with data; a message has at most twice as much.
	copyPiece = 1 << 20
	// copyIdle is how long the other side may take nothing: meanwhile old versions are kept for it.
	copyIdle = 10 * time.Second
	// copyRetryAfter is the hint of a node that sends as many copies as it may.
	copyRetryAfter = time.Second
)

// snapshotServer is the service by which other nodes of the application get copies of this node's stores. A copy is read in
// short portions, at most one ahead of what the other side takes: what it holds is two pieces of memory and the versions of
// one position, and no reader or writer waits for it.
type snapshotServer struct {
	iqv1.UnimplementedSnapshotServiceServer
	n     *Node
	slots chan struct{} // of Config.MaxCopies
}

func newSnapshotServer(n *Node) *snapshotServer {
	return &snapshotServer{n: n, slots: make(chan struct{}, max(0, n.cfg.MaxCopies))}
}

// snapshotRequest is what both requests have.
type snapshotRequest interface {
	GetNode() string
	GetGeneration() int64
	GetIdentity() *iqv1.SnapshotIdentity
	GetFormat() int32
}

// find checks a request and gives the replica that it is about, and its store.
func (s *snapshotServer) find(req snapshotRequest) (*replica, *store.KV, error) {
	up, hm := s.n.up.Load(), s.n.hostMap()
	switch {
	case up == nil:
		return nil, nil, s.notReady("Kafka and its topics")
	case hm == nil:
		return nil, nil, s.notReady("the first assignment")
	case !isHost(hm, metadata.NodeID(req.GetNode())):
		if req.GetGeneration() > int64(hm.Generation) { // it knows an assignment that is under way to this node
			return nil, nil, s.notReady("an assignment with node " + req.GetNode())
		}
		return nil, nil, iqerr.Invalid("node", req.GetNode(), "is no node of the application")
	case req.GetFormat() != store.SnapshotFormat:
		return nil, nil, iqerr.Invalid("format", req.GetFormat(), "is not the format of this node's stores")
	}
	want := req.GetIdentity()
	id := metadata.Partition{Store: want.GetStore(), Partition: want.GetPartition()}
	r := up.replicas.get(id)
	if r == nil {
		return nil, nil, &iqerr.NotHostedError{Node: s.n.cfg.NodeID, Store: id.Store, Partition: id.Partition}
	}
	kv := r.kv.Load()
	if kv == nil || r.broken.Load() != nil {
		return nil, nil, &iqerr.ClosingError{Node: s.n.cfg.NodeID, Store: want.GetStore()}
	}
	if field, have := identityDiffers(want, kv.ID()); field != "" {
		return nil, nil, iqerr.Invalid("identity."+field, have, "is what this node's store has, and not what was asked for")
	}
	return r, kv, nil
}

func (s *snapshotServer) notReady(waiting string) error {
	return &iqerr.NotReadyError{Node: s.n.cfg.NodeID, Waiting: waiting, RetryAfter: offerPause}
}

// identityDiffers names the first field in which a store is not what is asked for, and what the store has. A topic id that is
// not known fits nothing.
func identityDiffers(want *iqv1.SnapshotIdentity, have store.ID) (field, value string) {
	h := identityProto(have)
	switch {
	case want.GetApplication() != h.GetApplication():
		return "application", h.GetApplication()
	case want.GetChangelog() != h.GetChangelog():
		return "changelog", h.GetChangelog()
	case string(want.GetTopicId()) != string(h.GetTopicId()) || have.TopicID == [16]byte{}:
		return "topic_id", string(h.GetTopicId())
	case want.GetKind() != h.GetKind():
		return "kind", h.GetKind()
	case want.GetWindowSize().AsDuration() != have.Schema.WindowSize:
		return "window_size", have.Schema.WindowSize.String()
	case want.GetRetention().AsDuration() != have.Schema.Retention:
		return "retention", have.Schema.Retention.String()
	}
	return "", ""
}

func isHost(hm *metadata.HostMap, node metadata.NodeID) bool {
	for _, h := range hm.Hosts {
		if h.Node == node {
			return true
		}
	}
	return false
}

// Offer implements SnapshotService.
func (s *snapshotServer) Offer(_ context.Context, req *iqv1.OfferRequest) (*iqv1.OfferResponse, error) {
	r, kv, err := s.find(req)
	if err != nil {
		return nil, iqerr.Status(err)
	}
	if cap(s.slots) == 0 {
		return nil, iqerr.Status(s.overloaded())
	}
	stats, err := kv.Stats()
	if err != nil {
		return nil, iqerr.Status(&iqerr.ClosingError{Node: s.n.cfg.NodeID, Store: r.id.Store})
	}
	return &iqv1.OfferResponse{
		Position: kv.Position(), Entries: stats.Entries, Bytes: stats.TableBytes, Active: r.now.Load().role == metadata.RoleActive,
	}, nil
}

func (s *snapshotServer) overloaded() error {
	return &iqerr.OverloadedError{Node: s.n.cfg.NodeID, InFlight: int64(len(s.slots)), Limit: int64(cap(s.slots)), RetryAfter: copyRetryAfter}
}

// Copy implements SnapshotService.
func (s *snapshotServer) Copy(req *iqv1.CopyRequest, out iqv1.SnapshotService_CopyServer) error {
	r, kv, err := s.find(req)
	if err != nil {
		return iqerr.Status(err)
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		return iqerr.Status(s.overloaded())
	}
	e, err := kv.Export()
	if err != nil {
		return iqerr.Status(&iqerr.ClosingError{Node: s.n.cfg.NodeID, Store: r.id.Store})
	}
	defer e.Release()
	err = s.send(out, e, func() error {
		if s.n.serving.Closing() || r.broken.Load() != nil || r.kv.Load() != kv {
			return &iqerr.ClosingError{Node: s.n.cfg.NodeID, Store: r.id.Store}
		}
		return nil
	})
	if err != nil {
		if errors.Is(err, iqerr.ErrCorrupt) {
			r.Damaged(err)
		}
		return iqerr.Status(err)
	}
	return nil
}

// send sends an export while goOn agrees.
func (s *snapshotServer) send(out iqv1.SnapshotService_CopyServer, e *store.Export, goOn func() error) error {
	parts, sent := make(chan *iqv1.CopyResponse), make(chan error, 1)
	defer close(parts)
	go func() { // a Send that blocks ends when the call has returned
		for p := range parts {
			if err := out.Send(p); err != nil {
				sent <- err
				return
			}
			sent <- nil
		}
	}()
	idle := time.NewTimer(copyIdle)
	defer idle.Stop()
	under := false // a Send has begun whose outcome was not taken
	settle := func() error {
		if !under {
			return nil
		}
		idle.Reset(copyIdle)
		select {
		case err := <-sent:
			under = false
			return err
		case <-idle.C:
			return &iqerr.SlowReaderError{Node: s.n.cfg.NodeID, Waited: copyIdle}
		case <-out.Context().Done():
			return out.Context().Err()
		case <-s.n.stopped:
			return &iqerr.ClosingError{Node: s.n.cfg.NodeID}
		}
	}
	put := func(p *iqv1.CopyResponse) error {
		if err := errors.Join(settle(), goOn()); err != nil {
			return err
		}
		parts <- p
		under = true
		return nil
	}
	err := put(&iqv1.CopyResponse{Part: &iqv1.CopyResponse_Head{Head: headOf(e.Checkpoint())}})
	if err != nil {
		return err
	}
	var pieces [2][]byte // one is filled while the other is sent
	for i := 0; ; i ^= 1 {
		if cap(pieces[i]) > 4*copyPiece {
			pieces[i] = nil // of a single large entry
		}
		pieces[i], err = e.Next(pieces[i][:0], copyPiece)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return s.exportFailed(e, err)
		}
		for piece := range slices.Chunk(pieces[i], 2*copyPiece) {
			if err := put(&iqv1.CopyResponse{Part: &iqv1.CopyResponse_Data{Data: piece}}); err != nil {
				return err
			}
		}
	}
	sum := e.Sum()
	if err := put(&iqv1.CopyResponse{Part: &iqv1.CopyResponse_Sum{Sum: &iqv1.SnapshotSum{Entries: sum.Entries, Bytes: sum.Bytes, Crc: sum.CRC}}}); err != nil {
		return err
	}
	return settle()
}

// exportFailed is what a failure to read the store tells the other side.
func (s *snapshotServer) exportFailed(e *store.Export, err error) error {
	id := e.ID()
	if errors.Is(err, store.ErrCorrupt) {
		s.n.log.Error("a store that is copied is damaged", slog.String("store", id.Store), slog.Int("partition", int(id.Partition)), slog.Any("error", err))
		return &iqerr.CorruptError{Node: s.n.cfg.NodeID, Store: id.Store, Partition: id.Partition, Problem: "an entry cannot be read"}
	}
	return &iqerr.ClosingError{Node: s.n.cfg.NodeID, Store: id.Store}
}
