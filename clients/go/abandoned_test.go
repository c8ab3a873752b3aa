package leasebroker

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

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

// refusingBroker counts the releases of claims and refuses them.
type refusingBroker struct {
	pb.LeaseServiceClient
	err   error
	calls int
}

func (b *refusingBroker) ReleaseClaims(context.Context, *pb.ReleaseClaimsRequest, ...grpc.CallOption) (*pb.ReleaseClaimsResponse, error) {
	b.calls++
	return nil, b.err
}

func TestReleaseOfAbandonedClaimsIsSentAgainOnlyIfItCanSucceed(t *testing.T) {
	later, _ := status.New(codes.ResourceExhausted, "wait").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Minute)})
	for want, err := range map[int]error{1: status.Error(codes.PermissionDenied, "no role"), 3: later.Err()} {
		log := make(warnings, 10)
		state := newState(&options{concurrency: 1, queue: "work", logger: slog.New(log)}, newEventLog("work", nil, nil))
		state.abandoned = []string{"a"}
		broker := &refusingBroker{err: err}
		caller := &caller{onAttempt: func(*failure) {}, onRetry: func(retry) {}}
		poller := &poller{state: state, caller: caller, transport: &transport{client: broker}}
		for _, forget := range []bool{false, true, true} {
			poller.releaseAbandoned(t.Context(), forget)
		}
		if broker.calls != want {
			t.Errorf("after %v the release was sent %d times", err, broker.calls)
		}
		const text = "WARN items of abandoned claims may stay leased until they expire queue=work error=ReleaseClaims: "
		if line := log.next(t); !strings.HasPrefix(line, text) {
			t.Error(line)
		}
	}
}

// unreachableBroker fails as a broker to which no connection can be made. claimTimeout is the time of the last claim.
type unreachableBroker struct {
	pb.LeaseServiceClient
	claimTimeout time.Duration
}

func (*unreachableBroker) Complete(context.Context, *pb.CompleteRequest, ...grpc.CallOption) (*pb.CompleteResponse, error) {
	return nil, status.Error(codes.Unavailable, "no connection")
}

func (b *unreachableBroker) ClaimBatch(ctx context.Context, _ *pb.ClaimBatchRequest, _ ...grpc.CallOption) (*pb.ClaimBatchResponse, error) {
	deadline, _ := ctx.Deadline()
	b.claimTimeout = time.Until(deadline)
	return nil, status.Error(codes.PermissionDenied, "no")
}

func TestSettlementWithoutAConnectionAbandonsNoClaim(t *testing.T) {
	options, _ := newOptions("127.0.0.1:1", nil)
	state := newState(options, newEventLog("work", nil, options.logger))
	caller := &caller{onAttempt: func(*failure) {}, onRetry: func(retry) {}}
	settler := &settler{state: state, caller: caller, transport: &transport{client: &unreachableBroker{}}}
	lease := &heldLease{item: &Item{}, deadline: time.Now().Add(time.Second), duration: time.Second}
	group := []*ending{completed(lease, nil)}
	settler.send(t.Context(), group, 1, settler.wayOf(group))
	if len(state.abandoned) > 0 {
		t.Errorf("the abandoned claims are %v", state.abandoned)
	}
}

func TestClaimThatDoesNotWaitHasNoTimeToWait(t *testing.T) {
	options, _ := newOptions("127.0.0.1:1", nil)
	state := newState(options, newEventLog("work", nil, options.logger))
	broker, caller := &unreachableBroker{}, &caller{onAttempt: func(*failure) {}, onRetry: func(retry) {}}
	// No call was answered yet.
	health := &connectionHealth{failingSince: time.Now()}
	poller := &poller{state: state, caller: caller, health: health, transport: &transport{client: broker}}
	if err := poller.claim(t.Context(), 1); err == nil || broker.claimTimeout > 5*time.Second {
		t.Errorf("the claim may take %v: %v", broker.claimTimeout, err)
	}
}
