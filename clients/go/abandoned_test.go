package leasebroker

import (
	"context"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// releasingBroker answers ReleaseClaims when `expected` calls have arrived.
type releasingBroker struct {
	pb.LeaseServiceClient
	arrived sync.WaitGroup
	abandon func()
}

func (b *releasingBroker) ReleaseClaims(
	context.Context, *pb.ReleaseClaimsRequest, ...grpc.CallOption,
) (*pb.ReleaseClaimsResponse, error) {
	b.arrived.Done()
	b.arrived.Wait()
	b.abandon()
	return &pb.ReleaseClaimsResponse{}, nil
}

func TestPollersReleaseAbandonedClaimsAtTheSameTime(t *testing.T) {
	state := newState(&options{concurrency: 1}, newEventLog("work", nil, nil))
	state.abandoned = []string{"a", "b"}
	// Another claim is abandoned while the calls run.
	broker := &releasingBroker{abandon: sync.OnceFunc(func() {
		state.update(func() { state.abandoned = append(state.abandoned, "c") })
	})}
	caller := &caller{onAttempt: func(*failure) {}, onRetry: func(retry) {}}
	poller := &poller{state: state, caller: caller, transport: &transport{client: broker}}
	broker.arrived.Add(2)
	var pollers sync.WaitGroup
	for range 2 {
		pollers.Go(func() { poller.releaseAbandoned(context.Background(), true) })
	}
	pollers.Wait()
	if !slices.Equal(state.abandoned, []string{"c"}) {
		t.Errorf("the abandoned claims are %v", state.abandoned)
	}
}
