package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/store"
)

// Bounds of what is asked of another node.
const (
	offerTimeout = 500 * time.Millisecond
	offerTries   = 5 // while the other one has not heard of the assignment yet, or of the topic
	offerPause   = 50 * time.Millisecond
	// copySilence is how long nothing may come.
	copySilence = 5 * time.Second
	// copyGrace and copyPace bound the whole copy: after the grace so many bytes must have come in each second since. The
	// changelog is faster than less.
	copyGrace = 10 * time.Second
	copyPace  = 4 << 20
	// copyWindow is what may be under way of a copy.
	copyWindow = 4 << 20
)

// dialSource makes a connection to another node for copies.
func (c Config) dialSource(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, append(c.Security.DialOptions(), grpc.WithContextDialer(c.dial),
		grpc.WithInitialWindowSize(copyWindow), grpc.WithInitialConnWindowSize(copyWindow))...)
}

// choose asks the nodes that have the partition what they offer, and orders what is worth having.
func (b *bootstrapper) choose(ctx context.Context, r *replica, id store.ID) ([]offer, string) {
	hm := b.hosts()
	peers := peersOf(hm, r.id, b.self)
	rack := rackOf(hm, b.self)
	offers := make([]*offer, len(peers))
	var asking sync.WaitGroup
	for i, h := range peers {
		asking.Go(func() {
			got, err := b.ask(ctx, h, hm.Generation, id)
			if err != nil {
				b.log.Debug("no copy is offered", slog.String("store", r.id.String()), slog.String("from", string(h.Node)), slog.Any("error", err))
				return
			}
			got.sameRack = h.Rack == rack
			offers[i] = got
		})
	}
	asking.Wait()
	var all []offer
	for _, o := range offers {
		if o != nil {
			all = append(all, *o)
		}
	}
	free, err := store.FreeBytes(b.set.dir)
	if err != nil {
		free = -1
	}
	return chooseSources(r.shortfall(), all, b.distance, free)
}

// ask asks one node what it has.
func (b *bootstrapper) ask(ctx context.Context, h metadata.Host, generation metadata.Generation, id store.ID) (*offer, error) {
	ctx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	cc, err := b.dial(h.Address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = cc.Close() }()
	req := &iqv1.OfferRequest{Node: string(b.self), Generation: int64(generation), Identity: identityProto(id), Format: store.SnapshotFormat}
	for tries := 1; ; tries++ {
		resp, err := iqv1.NewSnapshotServiceClient(cc).Offer(ctx, req)
		if err == nil {
			return &offer{
				node: h.Node, address: h.Address, active: resp.GetActive(),
				position: resp.GetPosition(), entries: resp.GetEntries(), bytes: resp.GetBytes(),
			}, nil
		}
		if err = iqerr.FromStatus(err); tries == offerTries || !errors.Is(err, iqerr.ErrNotReady) {
			return nil, err
		}
		select {
		case <-time.After(offerPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// copy brings a whole copy into the replica's incoming directory, or leaves nothing there.
func (b *bootstrapper) copy(ctx context.Context, r *replica, id store.ID, o offer) (position int64, sum store.SnapshotSum, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	silence := time.AfterFunc(copySilence, func() { stop(errSilent) })
	defer silence.Stop()
	cc, err := b.dial(o.address)
	if err != nil {
		return 0, sum, err
	}
	defer func() { _ = cc.Close() }()
	in, err := iqv1.NewSnapshotServiceClient(cc).Copy(ctx, &iqv1.CopyRequest{
		Node: string(b.self), Generation: int64(r.now.Load().generation), Identity: identityProto(id), Format: store.SnapshotFormat,
	})
	if err != nil {
		return 0, sum, errors.Join(context.Cause(ctx), err)
	}
	first, err := in.Recv()
	if err != nil {
		return 0, sum, errors.Join(context.Cause(ctx), err)
	}
	head := first.GetHead()
	switch {
	case head == nil:
		return 0, sum, errors.New("a copy begins without a head")
	case head.GetPosition() <= r.position():
		return 0, sum, fmt.Errorf("it is at position %d, where this one is at %d", head.GetPosition(), r.position())
	}
	im, err := store.NewImport(b.set.incomingDir(r.id), id, checkpointOf(head), b.set.storeOptions)
	if err != nil {
		return 0, sum, err
	}
	sum, err = receive(in, im, r, silence)
	if err != nil {
		return 0, sum, errors.Join(context.Cause(ctx), err, im.Abort())
	}
	silence.Stop()
	if err := im.Commit(sum); err != nil {
		return 0, sum, errors.Join(err, im.Abort())
	}
	return head.GetPosition(), sum, nil
}

// receive takes the data of a copy up to its sum.
func receive(in iqv1.SnapshotService_CopyClient, im *store.Import, r *replica, silence *time.Timer) (store.SnapshotSum, error) {
	began := time.Now()
	for {
		silence.Reset(copySilence)
		part, err := in.Recv()
		if err != nil {
			return store.SnapshotSum{}, err // also io.EOF: it ended without its sum
		}
		silence.Stop() // a disk that is slow is no silence
		if r.released.Load() != 0 {
			return store.SnapshotSum{}, errReleased
		}
		switch p := part.GetPart().(type) {
		case *iqv1.CopyResponse_Data:
			if _, err := im.Write(p.Data); err != nil {
				return store.SnapshotSum{}, err
			}
			if took, got := time.Since(began), im.Sum().Bytes; tooSlow(took, got) {
				return store.SnapshotSum{}, fmt.Errorf("too slow: %d bytes in %s", got, took)
			}
		case *iqv1.CopyResponse_Sum:
			return store.SnapshotSum{Entries: p.Sum.GetEntries(), Bytes: p.Sum.GetBytes(), CRC: p.Sum.GetCrc()}, nil
		default:
			return store.SnapshotSum{}, fmt.Errorf("a copy has a part of kind %T", p)
		}
	}
}

// tooSlow says whether a copy takes longer than the changelog would.
func tooSlow(took time.Duration, bytes int64) bool {
	return took > copyGrace && float64(bytes) < copyPace*(took-copyGrace).Seconds()
}

var errSilent = fmt.Errorf("nothing came for %s", copySilence)

func identityProto(id store.ID) *iqv1.SnapshotIdentity {
	return &iqv1.SnapshotIdentity{
		Application: id.Application, Store: id.Store, Partition: id.Partition, Changelog: id.Changelog, TopicId: id.TopicID[:],
		Kind: id.Schema.Kind.String(), WindowSize: durationpb.New(id.Schema.WindowSize), Retention: durationpb.New(id.Schema.Retention),
	}
}

func checkpointOf(h *iqv1.SnapshotHead) store.Checkpoint {
	at := store.Checkpoint{Position: h.GetPosition(), StreamTime: h.GetStreamTime()}
	for _, in := range h.GetInputs() {
		if at.Input == nil {
			at.Input = make(map[store.TopicPartition]int64, len(h.GetInputs()))
		}
		at.Input[store.TopicPartition{Topic: in.GetTopic(), Partition: in.GetPartition()}] = in.GetOffset()
	}
	return at
}

func headOf(at store.Checkpoint) *iqv1.SnapshotHead {
	h := &iqv1.SnapshotHead{Position: at.Position, StreamTime: at.StreamTime}
	for tp, offset := range at.Input {
		h.Inputs = append(h.Inputs, &iqv1.SnapshotInput{Topic: tp.Topic, Partition: tp.Partition, Offset: offset})
	}
	return h
}
