package leasebroker_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"example.com/lease-broker/clients/go"
	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// scriptedBroker answers calls as its functions say. Its first claim gets one lease, which lasts for timeLeft.
type scriptedBroker struct {
	pb.UnimplementedLeaseServiceServer
	address  string
	timeLeft time.Duration

	wake    func(ctx context.Context, call int) error
	enqueue func(call int) error
	// claim returns the error of a claim before the one that gets the lease.
	claim     func(request *pb.ClaimBatchRequest) error
	complete  func(ctx context.Context, call int, request *pb.CompleteRequest) (*pb.CompleteResponse, error)
	fail      func(call int, failure *pb.Failure) *pb.SettleResult
	heartbeat func(call int, renewal *pb.Renewal) *pb.HeartbeatResult

	mu    sync.Mutex
	calls map[string]int
	// isFrozen is true if ReleaseClaims is not answered.
	isFrozen atomic.Bool
	// released has the request ids of ReleaseClaims.
	released []string
}

func (s *scriptedBroker) count(rpc string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[rpc]++
	return s.calls[rpc]
}

func (s *scriptedBroker) Wake(ctx context.Context, _ *pb.WakeRequest) (*pb.WakeResponse, error) {
	return &pb.WakeResponse{}, s.wake(ctx, s.count("Wake"))
}

func (s *scriptedBroker) Enqueue(_ context.Context, request *pb.EnqueueRequest) (*pb.EnqueueResponse, error) {
	if err := s.enqueue(s.count("Enqueue")); err != nil {
		return nil, err
	}
	return &pb.EnqueueResponse{Results: slices.Repeat([]*pb.EnqueueResult{{Key: "1"}}, len(request.Items))}, nil
}

func (s *scriptedBroker) ClaimBatch(ctx context.Context, request *pb.ClaimBatchRequest) (*pb.ClaimBatchResponse, error) {
	if s.claim != nil {
		if err := s.claim(request); err != nil {
			return nil, err
		}
	}
	if s.count("ClaimBatch") == 1 {
		lease := &pb.Lease{
			LeaseId: "lease-1", Item: &pb.Item{Key: "1"}, Attempt: 1, FencingToken: 1, TimeLeft: durationpb.New(s.timeLeft),
		}
		return &pb.ClaimBatchResponse{Leases: []*pb.Lease{lease}}, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s *scriptedBroker) Complete(ctx context.Context, request *pb.CompleteRequest) (*pb.CompleteResponse, error) {
	return s.complete(ctx, s.count("Complete"), request)
}

func (s *scriptedBroker) Fail(_ context.Context, request *pb.FailRequest) (*pb.FailResponse, error) {
	return &pb.FailResponse{Results: []*pb.SettleResult{s.fail(s.count("Fail"), request.Failures[0])}}, nil
}

func (s *scriptedBroker) Heartbeat(_ context.Context, request *pb.HeartbeatRequest) (*pb.HeartbeatResponse, error) {
	return &pb.HeartbeatResponse{Results: []*pb.HeartbeatResult{s.heartbeat(s.count("Heartbeat"), request.Renewals[0])}}, nil
}

func (s *scriptedBroker) ReleaseClaims(ctx context.Context, request *pb.ReleaseClaimsRequest) (*pb.ReleaseClaimsResponse, error) {
	s.mu.Lock()
	s.released = append(s.released, request.RequestIds...)
	s.mu.Unlock()
	if s.isFrozen.Load() {
		<-ctx.Done()
	}
	return &pb.ReleaseClaimsResponse{}, nil
}

func newScripted() *scriptedBroker {
	broker := &scriptedBroker{timeLeft: 10 * time.Second, calls: map[string]int{}}
	broker.heartbeat = func(int, *pb.Renewal) *pb.HeartbeatResult {
		return &pb.HeartbeatResult{Outcome: pb.Outcome_OUTCOME_APPLIED, TimeLeft: durationpb.New(broker.timeLeft)}
	}
	return broker
}

func startScripted(t *testing.T, options ...grpc.ServerOption) *scriptedBroker {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	broker := newScripted()
	broker.address = listener.Addr().String()
	server := grpc.NewServer(options...)
	pb.RegisterLeaseServiceServer(server, broker)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return broker
}

func (s *scriptedBroker) client(t *testing.T, options ...leasebroker.Option) *leasebroker.Client {
	client, err := leasebroker.NewClient(s.address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func pushback(ctx context.Context, milliseconds string) {
	_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", milliseconds))
}

func TestRetryWaitsForThePushback(t *testing.T) {
	broker := startScripted(t)
	broker.wake = func(ctx context.Context, call int) error {
		if call == 1 {
			pushback(ctx, "300")
			return status.Error(codes.Unavailable, "away")
		}
		return nil
	}
	begun := time.Now()
	if err := broker.client(t).Wake(context.Background(), "work"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < 300*time.Millisecond || broker.calls["Wake"] != 2 {
		t.Errorf("%d calls in %s", broker.calls["Wake"], took)
	}
}

func TestNegativePushbackEndsTheCall(t *testing.T) {
	broker := startScripted(t)
	broker.wake = func(ctx context.Context, _ int) error {
		pushback(ctx, "-1")
		return status.Error(codes.Unavailable, "away")
	}
	if err := broker.client(t).Wake(context.Background(), "work"); err == nil || broker.calls["Wake"] != 1 {
		t.Errorf("%d calls, %v", broker.calls["Wake"], err)
	}
}

func TestDeadlineOfTheBrokerIsRetriedInSpiteOfItsPushback(t *testing.T) {
	broker := startScripted(t)
	broker.complete = func(ctx context.Context, call int, request *pb.CompleteRequest) (*pb.CompleteResponse, error) {
		if call <= 2 {
			pushback(ctx, "-1")
			return nil, withApplied(codes.DeadlineExceeded, "DEADLINE_EXCEEDED", "unknown")
		}
		return applied(ctx, call, request)
	}
	_, events := broker.work(t, func(context.Context, *item) (*result, error) { return nil, nil })
	events.wait(leasebroker.EventCompleted, 1)
	var waits []time.Duration
	for _, event := range events.all {
		if event.Name == leasebroker.EventRetry {
			waits = append(waits, event.Wait)
		}
	}
	if len(waits) != 2 || waits[0] < 50*time.Millisecond || waits[1] < 100*time.Millisecond {
		t.Errorf("the waits are %v", waits)
	}
}

func TestErrorsThatAreNotRetried(t *testing.T) {
	for _, code := range []codes.Code{codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.PermissionDenied, codes.ResourceExhausted} {
		broker := startScripted(t)
		broker.wake = func(context.Context, int) error { return status.Error(code, "no") }
		var refused *leasebroker.CallError
		err := broker.client(t).Wake(context.Background(), "work")
		if !errors.As(err, &refused) || refused.Code != code || broker.calls["Wake"] != 1 {
			t.Errorf("%s: %d calls, %v", code, broker.calls["Wake"], err)
		}
	}
}

func TestRequestThatCannotBeEncodedIsNotRetried(t *testing.T) {
	broker := startScripted(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var refused *leasebroker.CallError
	err := broker.client(t).Wake(ctx, "work\xff")
	if !errors.As(err, &refused) || refused.Code != codes.InvalidArgument || refused.Applied != "no" || refused.Temporary {
		t.Errorf("Wake returns %+v", err)
	}
}

// withApplied returns an error of the broker with the metadata `applied`.
func withApplied(code codes.Code, reason, applied string) error {
	info := &errdetails.ErrorInfo{Domain: "leasebroker", Reason: reason, Metadata: map[string]string{"applied": applied}}
	given, err := status.New(code, "no").WithDetails(info)
	if err != nil {
		panic(err)
	}
	return given.Err()
}

func TestErrorSaysWhetherACallWasApplied(t *testing.T) {
	unchanged := withApplied(codes.NotFound, "QUEUE_NOT_FOUND", "no")
	for name, test := range map[string]struct {
		errs    []error
		applied string
	}{
		"no":                          {[]error{unchanged}, "no"},
		"not given":                   {[]error{status.Error(codes.NotFound, "no")}, "unknown"},
		"unknown before no":           {[]error{status.Error(codes.Unavailable, "away"), unchanged}, "unknown"},
		"no in each of two attempts":  {[]error{withApplied(codes.Unavailable, "STORE_UNAVAILABLE", "no"), unchanged}, "no"},
		"unknown in the last attempt": {[]error{withApplied(codes.Internal, "INTERNAL", "unknown")}, "unknown"},
	} {
		broker := startScripted(t)
		broker.wake = func(_ context.Context, call int) error { return test.errs[call-1] }
		var refused *leasebroker.CallError
		err := broker.client(t).Wake(context.Background(), "work")
		if !errors.As(err, &refused) || refused.Applied != test.applied {
			t.Errorf("%s: %+v", name, err)
		}
	}
}

func TestErrorOfACallIsACallErrorHoweverItEnds(t *testing.T) {
	silent, unknown, away := startScripted(t), startScripted(t), startScripted(t)
	silent.wake = func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
	unknown.wake = func(context.Context, int) error { return withApplied(codes.NotFound, "QUEUE_NOT_FOUND", "no") }
	away.wake = func(ctx context.Context, _ int) error {
		pushback(ctx, "1500")
		return status.Error(codes.Unavailable, "away")
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	nobody := &scriptedBroker{address: closed.Addr().String()}
	for name, test := range map[string]struct {
		broker  *scriptedBroker
		cancel  bool
		code    codes.Code
		applied string
		cause   error
	}{
		"no answer in time":    {silent, false, codes.DeadlineExceeded, "unknown", context.DeadlineExceeded},
		"cancelled":            {silent, true, codes.Canceled, "unknown", context.Canceled},
		"nobody listens":       {nobody, false, codes.Unavailable, "no", context.DeadlineExceeded},
		"cancelled in a pause": {away, true, codes.Unavailable, "unknown", context.Canceled},
		"refused":              {unknown, false, codes.NotFound, "no", nil},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			if test.cancel {
				time.AfterFunc(time.Second, cancel)
			}
			err := test.broker.client(t).Wake(ctx, "work")
			var failed *leasebroker.CallError
			if !errors.As(err, &failed) || failed.Applied != test.applied || status.Code(err) != test.code || errors.Unwrap(err) != test.cause {
				t.Errorf("%+v", err)
			}
		})
	}
}

func TestErrorAfterTheFirstRowsSaysThatTheyWereAdded(t *testing.T) {
	info := &errdetails.ErrorInfo{Domain: "leasebroker", Reason: "INVALID_FIELD", Metadata: map[string]string{"applied": "no"}}
	field := &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "items[200].delay"}}}
	invalid, err := status.New(codes.InvalidArgument, "items[200].delay: no").WithDetails(info, field)
	if err != nil {
		t.Fatal(err)
	}
	// It is not sent again, because the wait is longer than the time of the call.
	overloaded, err := status.New(codes.ResourceExhausted, "no").WithDetails(
		&errdetails.ErrorInfo{Domain: "leasebroker", Reason: "OVERLOADED", Metadata: map[string]string{"applied": "no"}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		err     error
		applied string
		message string
	}{
		"refused row": {invalid.Err(), "partly", "items[1200].delay: no; the first 1000 rows were added"},
		"unknown":     {withApplied(codes.Internal, "INTERNAL", "unknown"), "unknown", "no; the first 1000 rows were added"},
		"limit":       {overloaded.Err(), "partly", "no; the first 1000 rows were added"},
	} {
		broker := startScripted(t)
		broker.enqueue = func(call int) error {
			if call == 1 {
				return nil
			}
			return test.err
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		keys, err := broker.client(t).Enqueue(ctx, "work", make([]leasebroker.Row, 1_500))
		cancel()
		var refused *leasebroker.CallError
		if !errors.As(err, &refused) || len(keys) != 1_000 || refused.Applied != test.applied || refused.Message != test.message || refused.Temporary {
			t.Errorf("%s: %d keys, %+v", name, len(keys), err)
		} else if name == "refused row" && !slices.Equal(refused.Fields, []string{"items[1200].delay"}) {
			t.Errorf("the fields are %v", refused.Fields)
		}
	}
}

// work starts a worker with one slot. The test ends it.
func (s *scriptedBroker) work(t *testing.T, handler leasebroker.Handler, options ...leasebroker.Option) (*leasebroker.Worker, *watcher) {
	events := newWatcher(t)
	worker, err := leasebroker.NewWorker(s.address, "work", handler, append(options, events.option())...)
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Stop(0) })
	return worker, events
}

func refused(field string) *pb.Refusal {
	return &pb.Refusal{Reason: pb.RefusalReason_REFUSAL_REASON_INVALID_FIELD, Field: field, Message: "it is too large"}
}

func TestRefusedHeartbeatIsSentAgainAtOnceWithoutItsCheckpoint(t *testing.T) {
	broker := startScripted(t)
	broker.timeLeft = 15 * time.Second // The period of the heartbeats is 5 s.
	sent := make(chan []byte, 100)
	var at [3]time.Time
	extended := broker.heartbeat
	broker.heartbeat = func(call int, renewal *pb.Renewal) *pb.HeartbeatResult {
		// The channel orders the times before their use.
		if call < len(at) {
			at[call] = time.Now()
		}
		sent <- renewal.Checkpoint
		if renewal.Checkpoint != nil {
			return &pb.HeartbeatResult{Outcome: pb.Outcome_OUTCOME_REFUSED, Refusal: refused("checkpoint")}
		}
		return extended(call, renewal)
	}
	broker.complete = func(context.Context, int, *pb.CompleteRequest) (*pb.CompleteResponse, error) {
		return &pb.CompleteResponse{Results: []*pb.SettleResult{{Outcome: pb.Outcome_OUTCOME_APPLIED}}}, nil
	}
	_, events := broker.work(t, func(_ context.Context, item *item) (*result, error) {
		item.SaveCheckpoint(make([]byte, 5_000))
		if first, second := <-sent, <-sent; len(first) != 5_000 || second != nil {
			t.Errorf("heartbeats with %d and %d bytes", len(first), len(second))
		}
		return nil, nil
	})
	events.wait(leasebroker.EventCompleted, 1)
	if pause := at[2].Sub(at[1]); pause > 4*time.Second {
		t.Errorf("the second heartbeat came after %s", pause)
	}
	if events.counts[leasebroker.EventLost] != 0 {
		t.Errorf("the events are %v", events.counts)
	}
}

func TestRefusedFailureIsSentAgainWithoutTheRefusedField(t *testing.T) {
	for field, second := range map[string]*pb.Failure{
		"retry_delay": {Checkpoint: []byte("page 7")},
		"checkpoint":  {RetryDelay: durationpb.New(time.Minute)},
	} {
		broker := startScripted(t)
		sent := make(chan *pb.Failure, 2)
		broker.fail = func(call int, failure *pb.Failure) *pb.SettleResult {
			sent <- failure
			if call == 1 {
				return &pb.SettleResult{Outcome: pb.Outcome_OUTCOME_REFUSED, Refusal: refused(field)}
			}
			return &pb.SettleResult{Outcome: pb.Outcome_OUTCOME_APPLIED}
		}
		_, events := broker.work(t, func(_ context.Context, item *item) (*result, error) {
			item.SaveCheckpoint([]byte("page 7"))
			return nil, leasebroker.RetryAfter(errors.New("later"), time.Minute)
		})
		events.wait(leasebroker.EventFailed, 1)
		if reason := events.find(leasebroker.EventRefused).Reason; reason != field+": it is too large" {
			t.Errorf("the reason is %q", reason)
		}
		second.LeaseId, second.ErrorMessage = "lease-1", "Retry: later"
		if <-sent; !proto.Equal(<-sent, second) {
			t.Errorf("a failure without %s differs from %v", field, second)
		}
	}
}

func TestEndingsDoNotWaitForALockedRow(t *testing.T) {
	broker := startScripted(t)
	refusal := &pb.Refusal{Reason: pb.RefusalReason_REFUSAL_REASON_LOCKED}
	isLocked := true
	broker.complete = func(_ context.Context, call int, request *pb.CompleteRequest) (*pb.CompleteResponse, error) {
		response := &pb.CompleteResponse{}
		wasLocked := isLocked
		for _, completion := range request.Completions {
			result := &pb.SettleResult{Outcome: pb.Outcome_OUTCOME_APPLIED}
			if completion.LeaseId == "lease-2" {
				isLocked = false
			} else if wasLocked {
				result = &pb.SettleResult{Outcome: pb.Outcome_OUTCOME_REFUSED, Refusal: refusal}
			}
			response.Results = append(response.Results, result)
		}
		if call == 1 {
			next := &pb.Lease{LeaseId: "lease-2", Item: &pb.Item{Key: "2"}, Attempt: 1, TimeLeft: durationpb.New(broker.timeLeft)}
			response.Next = &pb.ClaimBatchResponse{Leases: []*pb.Lease{next}}
		}
		return response, nil
	}
	_, events := broker.work(t, func(context.Context, *item) (*result, error) { return nil, nil })
	events.wait(leasebroker.EventCompleted, 2)
	if first := events.find(leasebroker.EventCompleted); first.Item.Key != "2" {
		t.Errorf("item %s is completed first", first.Item.Key)
	}
	if events.counts[leasebroker.EventRefused] != 0 || events.find(leasebroker.EventRetry).Reason != "LOCKED" {
		t.Errorf("the events are %v", events.counts)
	}
}

func TestStopWaitsForALockedRow(t *testing.T) {
	for name, unlocked := range map[string]int{"until it is unlocked": 3, "until the end of the stop": math.MaxInt} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker := startScripted(t)
			refusal := &pb.Refusal{Reason: pb.RefusalReason_REFUSAL_REASON_LOCKED}
			broker.complete = func(_ context.Context, call int, _ *pb.CompleteRequest) (*pb.CompleteResponse, error) {
				result := &pb.SettleResult{Outcome: pb.Outcome_OUTCOME_APPLIED}
				if call < unlocked {
					result = &pb.SettleResult{Outcome: pb.Outcome_OUTCOME_REFUSED, Refusal: refusal}
				}
				return &pb.CompleteResponse{Results: []*pb.SettleResult{result}}, nil
			}
			worker, events := broker.work(t, func(context.Context, *item) (*result, error) { return nil, nil })
			events.wait(leasebroker.EventRetry, 1)
			begun := time.Now()
			if err := worker.Stop(0); err != nil {
				t.Fatal(err)
			}
			events.settle()
			expected := leasebroker.EventCompleted
			if unlocked == math.MaxInt {
				expected = leasebroker.EventUnknown
			}
			if events.counts[expected] != 1 || time.Since(begun) > 30*time.Second {
				t.Errorf("the events after %s are %v", time.Since(begun), events.counts)
			}
		})
	}
}

func TestClaimAndNextClaimNameTheGroups(t *testing.T) {
	broker := startScripted(t)
	sent := make(chan []string, 10)
	broker.claim = func(request *pb.ClaimBatchRequest) error { sent <- request.Groups; return nil }
	broker.complete = func(_ context.Context, _ int, request *pb.CompleteRequest) (*pb.CompleteResponse, error) {
		sent <- request.GetNext().GetGroups()
		return &pb.CompleteResponse{Results: []*pb.SettleResult{{Outcome: pb.Outcome_OUTCOME_APPLIED}}}, nil
	}
	handler := func(context.Context, *item) (*result, error) { return nil, nil }
	broker.work(t, handler, leasebroker.Groups("42", "43"))
	for range 2 {
		if groups := <-sent; !slices.Equal(groups, []string{"42", "43"}) {
			t.Errorf("a claim has the groups %v", groups)
		}
	}
}

func TestErrorOfTheNextClaimIsThatOfAClaim(t *testing.T) {
	completeWith := func(broker *scriptedBroker, ids chan string, next *pb.CallError) {
		broker.complete = func(_ context.Context, _ int, request *pb.CompleteRequest) (*pb.CompleteResponse, error) {
			ids <- request.GetNext().GetRequestId()
			return &pb.CompleteResponse{Results: []*pb.SettleResult{{Outcome: pb.Outcome_OUTCOME_APPLIED}}, NextError: next}, nil
		}
	}
	handler := func(context.Context, *item) (*result, error) { return nil, nil }
	ids := make(chan string, 1)

	broker := startScripted(t)
	completeWith(broker, ids, &pb.CallError{
		Code: int32(codes.Unavailable), Reason: "STORE_UNAVAILABLE", RetryDelay: durationpb.New(300 * time.Millisecond),
	})
	worker, events := broker.work(t, handler)
	events.wait(leasebroker.EventCompleted, 1)
	events.wait(leasebroker.EventRetry, 1)
	if retry := events.find(leasebroker.EventRetry); retry.RPC != "ClaimBatch" || retry.Wait != 300*time.Millisecond || retry.Reason != "STORE_UNAVAILABLE" {
		t.Errorf("%+v", retry)
	}
	if err := worker.Stop(0); err != nil {
		t.Error(err)
	}
	if id := <-ids; !slices.Contains(broker.released, id) {
		t.Errorf("the request ids %v were released, not %s", broker.released, id)
	}

	broker = startScripted(t)
	completeWith(broker, ids, &pb.CallError{
		Code: int32(codes.PermissionDenied), Reason: "ROLE_MISSING", Metadata: map[string]string{"applied": "no"},
	})
	worker, _ = broker.work(t, handler)
	<-worker.Done()
	var refused *leasebroker.CallError
	if err := worker.Stop(0); !errors.As(err, &refused) || refused.RPC != "ClaimBatch" || refused.Reason != "ROLE_MISSING" {
		t.Errorf("Stop returns %v", err)
	}
	if id := <-ids; slices.Contains(broker.released, id) {
		t.Error("a claim was released although it has changed nothing")
	}
}

func TestRefusedNextClaimDoesNotRefuseTheCompletion(t *testing.T) {
	refusal := func(field string) error {
		given, err := status.New(codes.InvalidArgument, "the lease is too long").WithDetails(
			&errdetails.ErrorInfo{Domain: "leasebroker", Reason: "INVALID_FIELD", Metadata: map[string]string{"applied": "no"}},
			&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field}}})
		if err != nil {
			t.Fatal(err)
		}
		return given.Err()
	}
	broker := startScripted(t)
	var lowered atomic.Bool
	broker.claim = func(*pb.ClaimBatchRequest) error {
		if lowered.Load() {
			return refusal("lease_duration")
		}
		return nil
	}
	broker.complete = func(ctx context.Context, call int, request *pb.CompleteRequest) (*pb.CompleteResponse, error) {
		lowered.Store(true)
		if request.Next != nil {
			return nil, refusal("next.lease_duration")
		}
		return applied(ctx, call, request)
	}
	worker, events := broker.work(t, func(context.Context, *item) (*result, error) { return nil, nil }, leasebroker.Lease(time.Minute))
	events.wait(leasebroker.EventCompleted, 1)
	var refused *leasebroker.CallError
	<-worker.Done() // The slot is free again, so that a poller claims for it and meets the error.
	if err := worker.Stop(0); !errors.As(err, &refused) || refused.RPC != "ClaimBatch" || refused.Fields[0] != "lease_duration" {
		t.Errorf("Stop returns %v", err)
	}
	if events.counts[leasebroker.EventRefused] != 0 {
		t.Errorf("the events are %v", events.counts)
	}
}

func TestAnswerWithoutAResultIsAnError(t *testing.T) {
	broker := startScripted(t)
	broker.complete = func(context.Context, int, *pb.CompleteRequest) (*pb.CompleteResponse, error) {
		return &pb.CompleteResponse{}, nil
	}
	if event := completeOnce(t, broker).find(leasebroker.EventUnknown); !strings.Contains(event.Error, "0 results for 1 entries") {
		t.Errorf("%+v", event)
	}
}

// completeOnce runs a worker until the item of the scripted broker has ended.
func completeOnce(t *testing.T, broker *scriptedBroker) *watcher {
	worker, events := broker.work(t, func(context.Context, *item) (*result, error) { return nil, nil })
	for events.counts[leasebroker.EventCompleted]+events.counts[leasebroker.EventUnknown] == 0 {
		events.take(<-events.events)
	}
	if err := worker.Stop(0); err != nil {
		t.Fatal(err)
	}
	return events
}

func gone() *pb.CompleteResponse {
	return &pb.CompleteResponse{Results: []*pb.SettleResult{{Outcome: pb.Outcome_OUTCOME_GONE}}}
}

func TestRowThatIsGoneAfterARetryWasCompleted(t *testing.T) {
	broker := startScripted(t)
	var ids []string
	broker.complete = func(_ context.Context, call int, request *pb.CompleteRequest) (*pb.CompleteResponse, error) {
		ids = append(ids, request.GetNext().GetRequestId())
		if call == 1 {
			return nil, status.Error(codes.Unavailable, "the response was lost")
		}
		return gone(), nil
	}
	events := completeOnce(t, broker)
	if events.counts[leasebroker.EventCompleted] != 1 || events.counts[leasebroker.EventRetry] != 1 {
		t.Errorf("the events are %v", events.counts)
	}
	if len(ids) != 2 || ids[0] == "" || ids[0] != ids[1] {
		t.Errorf("the request ids are %v", ids)
	}
}

func TestRowThatIsGoneAtFirstIsUnknown(t *testing.T) {
	broker := startScripted(t)
	broker.complete = func(context.Context, int, *pb.CompleteRequest) (*pb.CompleteResponse, error) {
		return gone(), nil
	}
	if events := completeOnce(t, broker); events.counts[leasebroker.EventUnknown] != 1 {
		t.Errorf("the events are %v", events.counts)
	}
}

// checkToken returns an error unless the call has the token.
func checkToken(ctx context.Context, token string) error {
	headers, _ := metadata.FromIncomingContext(ctx)
	if values := headers.Get("authorization"); len(values) == 1 && values[0] == "Bearer "+token {
		return nil
	}
	return status.Error(codes.Unauthenticated, "unknown token")
}

func TestRefusedTokenIsReadAgainOnce(t *testing.T) {
	broker := startScripted(t)
	path := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	valid := "old"
	broker.wake = func(ctx context.Context, _ int) error { return checkToken(ctx, valid) }
	client := broker.client(t, leasebroker.Token(leasebroker.TokenFile(path)))
	if err := client.Wake(context.Background(), "work"); err != nil {
		t.Fatal(err)
	}
	valid = "new"
	write("new")
	if err := client.Wake(context.Background(), "work"); err != nil || broker.calls["Wake"] != 3 {
		t.Errorf("%d calls, %v", broker.calls["Wake"], err)
	}
	valid = "another"
	if err := client.Wake(context.Background(), "work"); err == nil || broker.calls["Wake"] != 5 {
		t.Errorf("%d calls, %v", broker.calls["Wake"], err)
	}
}

func TestWhiteSpaceAroundATokenIsRemoved(t *testing.T) {
	broker := startScripted(t)
	broker.wake = func(ctx context.Context, _ int) error { return checkToken(ctx, "known") }
	function := func(context.Context, bool) (string, error) { return "known\r\n", nil }
	for _, source := range []leasebroker.TokenSource{leasebroker.TokenText(" known\n"), function} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := broker.client(t, leasebroker.Token(source)).Wake(ctx, "work"); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

func TestTokenWithAnIllegalCharacterIsRefusedAndNotShown(t *testing.T) {
	broker := startScripted(t)
	for _, token := range []string{"se\ncret", "se\x7fcret", "sécret", "\xffsecret"} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := broker.client(t, leasebroker.Token(leasebroker.TokenText(token))).Wake(ctx, "work")
		var refused *leasebroker.CallError
		if !errors.As(err, &refused) || refused.Code != codes.Unauthenticated || !strings.Contains(refused.Message, "the token has a character that") {
			t.Errorf("%q: %v", token, err)
		}
		if strings.Contains(err.Error(), "cret") {
			t.Errorf("the token is shown: %v", err)
		}
		cancel()
	}
}

func TestNameOfAFileIsNotSentAsAToken(t *testing.T) {
	broker := startScripted(t)
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := broker.client(t, leasebroker.Token(leasebroker.TokenText(path))).Wake(context.Background(), "work")
	var refused *leasebroker.CallError
	if !errors.As(err, &refused) || refused.Code != codes.Unauthenticated || !strings.Contains(refused.Message, "use TokenFile") {
		t.Error(err)
	}
}

func TestTokenThatCannotBeReadIsReadAgain(t *testing.T) {
	broker := startScripted(t)
	broker.complete = applied
	var reads atomic.Int32
	source := func(context.Context, bool) (string, error) {
		switch reads.Add(1) {
		case 1:
			return "", errors.New("the identity service is away")
		case 2:
			panic("broken source")
		default:
			return "known", nil
		}
	}
	_, events := broker.work(t, func(context.Context, *item) (*result, error) { return nil, nil }, leasebroker.Token(source))
	events.wait(leasebroker.EventCompleted, 1)
	retry := events.find(leasebroker.EventRetry)
	if retry.Code != "Unavailable" || retry.Error != "the token cannot be read: the identity service is away" || retry.Wait < 50*time.Millisecond {
		t.Errorf("%+v", retry)
	}
}

func TestTokenSourceThatDoesNotReturnEndsWithItsCall(t *testing.T) {
	broker := startScripted(t)
	blocked := make(chan struct{})
	t.Cleanup(func() { close(blocked) })
	asked := make(chan struct{}, 100)
	source := func(context.Context, bool) (string, error) {
		asked <- struct{}{}
		<-blocked
		return "known", nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := broker.client(t, leasebroker.Token(source)).Wake(ctx, "work"); err == nil {
		t.Error("Wake returns nil")
	}
	<-asked
	worker, _ := broker.work(t, func(context.Context, *item) (*result, error) { return nil, nil }, leasebroker.Token(source))
	<-asked
	begun := time.Now()
	if err := worker.Stop(0); err != nil || time.Since(begun) > time.Minute {
		t.Errorf("Stop returns %v after %s", err, time.Since(begun))
	}
}

func TestClosedClientEndsItsCalls(t *testing.T) {
	broker := startScripted(t)
	sent, returned := make(chan struct{}), make(chan error)
	broker.wake = func(ctx context.Context, _ int) error {
		close(sent)
		<-ctx.Done()
		return ctx.Err()
	}
	client := broker.client(t)
	go func() { returned <- client.Wake(context.Background(), "work") }()
	<-sent
	begun := time.Now()
	client.Close()
	for applied, err := range map[string]error{
		"unknown": <-returned,
		"no":      func() error { _, err := client.Enqueue(context.Background(), "work", payloads(1)); return err }(),
	} {
		var closed *leasebroker.CallError
		if !errors.As(err, &closed) || closed.Code != codes.FailedPrecondition || closed.Applied != applied || closed.Temporary {
			t.Errorf("%s: %+v", applied, err)
		}
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("the calls end after %s", took)
	}
}

func TestStopInAnObserverEnds(t *testing.T) {
	broker := startScripted(t)
	broker.complete = applied
	returned := make(chan error, 1)
	var worker *leasebroker.Worker
	worker, err := leasebroker.NewWorker(broker.address, "work",
		func(context.Context, *item) (*result, error) { return nil, nil },
		leasebroker.OnEvent(func(event leasebroker.Event) {
			if event.Name == leasebroker.EventCompleted {
				returned <- worker.Stop(0)
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-returned:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(60 * time.Second):
		t.Error("Stop has not returned after 60 s")
	}
}

func TestStopBesideAFrozenBrokerKeepsItsLimit(t *testing.T) {
	t.Parallel()
	broker := startScripted(t)
	broker.timeLeft = time.Minute
	settling := make(chan struct{}, 100)
	broker.complete = func(ctx context.Context, _ int, _ *pb.CompleteRequest) (*pb.CompleteResponse, error) {
		broker.isFrozen.Store(true)
		settling <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	worker, events := broker.work(t, func(context.Context, *item) (*result, error) { return nil, nil })
	<-settling
	begun := time.Now()
	if err := worker.Stop(0); err != nil {
		t.Error(err)
	}
	// Handlers and settlements have 5 s each. The lease has a minute.
	if took := time.Since(begun); took > 40*time.Second {
		t.Errorf("the stop takes %s", took)
	}
	broker.mu.Lock()
	defer broker.mu.Unlock()
	// It would take 2 s more.
	if len(broker.released) != 0 {
		t.Error("the claim in `next` was released")
	}
	events.wait(leasebroker.EventUnknown, 1)
}

func TestGraceWithoutAnEndStillSettles(t *testing.T) {
	for _, grace := range []time.Duration{math.MaxInt64, -time.Hour} {
		broker := startScripted(t)
		sent := make(chan struct{})
		broker.complete = func(ctx context.Context, call int, request *pb.CompleteRequest) (*pb.CompleteResponse, error) {
			close(sent)
			// An answer that takes a moment, so that a settlement that is given up at once is noticed.
			time.Sleep(200 * time.Millisecond)
			return applied(ctx, call, request)
		}
		worker, events := broker.work(t, func(context.Context, *item) (*result, error) { return nil, nil })
		<-sent
		if err := worker.Stop(grace); err != nil {
			t.Fatal(err)
		}
		events.settle()
		if events.counts[leasebroker.EventCompleted] != 1 {
			t.Errorf("with a grace of %s the events are %v", grace, events.counts)
		}
	}
}

func TestTokenFileThatIsEmptyForAMomentIsReadAgain(t *testing.T) {
	broker := startScripted(t)
	broker.wake = func(ctx context.Context, _ int) error { return checkToken(ctx, "valid") }
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file := leasebroker.TokenFile(path)
	var reads atomic.Int32
	source := func(ctx context.Context, fresh bool) (string, error) {
		if reads.Add(1) == 2 {
			if err := os.WriteFile(path, []byte("valid"), 0o600); err != nil {
				return "", err
			}
		}
		return file(ctx, fresh)
	}
	if err := broker.client(t, leasebroker.Token(source)).Wake(context.Background(), "work"); err != nil || broker.calls["Wake"] != 1 {
		t.Errorf("%d calls, %v", broker.calls["Wake"], err)
	}
}

func TestRefusedTokenEndsTheWorker(t *testing.T) {
	refuse := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if err := checkToken(ctx, "valid"); err != nil {
			return nil, err
		}
		return handle(ctx, request)
	}
	broker := startScripted(t, grpc.UnaryInterceptor(refuse))
	worker, err := leasebroker.NewWorker(broker.address, "work",
		func(context.Context, *item) (*result, error) { return nil, nil }, leasebroker.Token(leasebroker.TokenText("wrong")))
	if err != nil {
		t.Fatal(err)
	}
	var refused *leasebroker.CallError
	if err := worker.Run(context.Background()); !errors.As(err, &refused) || refused.Code != codes.Unauthenticated {
		t.Errorf("Run returns %v", err)
	}
}

func TestRefusalWithAWaitDoesNotEndTheWorker(t *testing.T) {
	refusal := func(code codes.Code, reason string) error {
		details, err := status.New(code, "later").WithDetails(
			&errdetails.ErrorInfo{Domain: "leasebroker", Reason: reason},
			&errdetails.RetryInfo{RetryDelay: durationpb.New(10 * time.Millisecond)})
		if err != nil {
			t.Fatal(err)
		}
		return details.Err()
	}
	refusals := []error{
		refusal(codes.Unauthenticated, "CREDENTIALS_INVALID"), refusal(codes.ResourceExhausted, "IDENTITY_LIMIT"),
	}
	broker := startScripted(t)
	claims := slices.Concat(refusals, refusals)
	broker.claim = func(*pb.ClaimBatchRequest) error {
		broker.mu.Lock()
		defer broker.mu.Unlock()
		if len(claims) == 0 {
			return nil
		}
		first := claims[0]
		claims = claims[1:]
		return first
	}
	broker.complete = func(_ context.Context, call int, _ *pb.CompleteRequest) (*pb.CompleteResponse, error) {
		if call <= len(refusals) {
			return nil, refusals[call-1]
		}
		return &pb.CompleteResponse{Results: []*pb.SettleResult{{Outcome: pb.Outcome_OUTCOME_APPLIED}}}, nil
	}
	completed := make(chan struct{})
	observe := leasebroker.OnEvent(func(event leasebroker.Event) {
		if event.Name == leasebroker.EventCompleted {
			close(completed)
		}
	})
	worker, err := leasebroker.NewWorker(broker.address, "work",
		func(context.Context, *item) (*result, error) { return nil, nil },
		leasebroker.Token(leasebroker.TokenText("known")), observe)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { ended <- worker.Run(ctx) }()
	select {
	case <-completed:
	case err := <-ended:
		t.Fatalf("Run returns %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run returns %v", err)
	}
}

// authority signs certificates for a test.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.certificate = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, a.certificate, a.certificate, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign returns a certificate for a name, and its key.
func (a *authority) sign(name string) (certificate, privateKey []byte) {
	key := newKey(a.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

func TestTLSWithCertificatesAndToken(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.sign("broker.example")
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(a.pem)
	broker := startScripted(t, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	broker.wake = func(ctx context.Context, _ int) error { return checkToken(ctx, "secret") }
	clientCert, clientKey := a.sign("worker")
	files := leasebroker.TLSFiles{CA: a.pem, Cert: clientCert, Key: clientKey, ServerName: "broker.example"}
	token := leasebroker.Token(leasebroker.TokenText("secret"))
	if err := broker.client(t, leasebroker.Credentials(leasebroker.TLS(files)), token).Wake(context.Background(), "work"); err != nil {
		t.Fatal(err)
	}

	// Each of these is refused by one of the two sides.
	withoutName, withoutCert, otherCA := files, files, files
	withoutName.ServerName = ""
	withoutCert.Cert, withoutCert.Key = nil, nil
	otherCA.CA = newAuthority(t).pem
	for name, files := range map[string]leasebroker.TLSFiles{"name": withoutName, "certificate": withoutCert, "authority": otherCA} {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		if err := broker.client(t, leasebroker.Credentials(leasebroker.TLS(files)), token).Wake(ctx, "work"); err == nil {
			t.Errorf("a connection with the wrong %s was accepted", name)
		}
		cancel()
	}
	if broker.calls["Wake"] != 1 {
		t.Errorf("%d calls have arrived", broker.calls["Wake"])
	}
}

func TestMalformedCertificatesAreRefused(t *testing.T) {
	for _, files := range []leasebroker.TLSFiles{{CA: []byte("no PEM")}, {Cert: []byte("no PEM")}} {
		if _, err := leasebroker.NewClient("broker.example:1", leasebroker.Credentials(leasebroker.TLS(files))); err == nil {
			t.Error("malformed files were accepted")
		}
	}
}
