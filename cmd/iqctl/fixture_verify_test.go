package main

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// verifier is a node's own service of verification. That of b finds one entry of flights-by-dest/3 that its changelog does not
// have, and c another state of it than b.
type verifier struct {
	iqv1.UnimplementedVerifyServiceServer
	node string
}

func (v *verifier) VerifyReplica(req *iqv1.VerifyReplicaRequest, out iqv1.VerifyService_VerifyReplicaServer) error {
	res := &iqv1.VerifyResult{Status: standbyOnB(), Position: 988, Entries: 112}
	if req.GetPartition() == 3 {
		res.Differences, res.First = 1, []*iqv1.VerifyDifference{{Kind: iqv1.VerifyDifference_KIND_ONLY_REPLICA, Key: []byte("ATL")}}
	}
	for _, m := range []*iqv1.VerifyReplicaResponse{{Records: 500, TableBytes: 1 << 20}, {Records: 988, TableBytes: 3 << 20}, {Result: res}} {
		if err := out.Send(m); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) PinState(_ context.Context, req *iqv1.PinStateRequest) (*iqv1.PinStateResponse, error) {
	if v.node == "c" && req.GetPartition() != 3 {
		return nil, status.Error(codes.Unavailable, "no such replica")
	}
	return &iqv1.PinStateResponse{Pin: 1, Status: standbyOnB(), Position: 988, End: 1000}, nil
}

func (v *verifier) DigestState(context.Context, *iqv1.DigestStateRequest) (*iqv1.DigestStateResponse, error) {
	return &iqv1.DigestStateResponse{Digest: []byte(v.node), Entries: 110, LeftOut: 2}, nil
}
