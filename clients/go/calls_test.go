package leasebroker

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

func TestCallWithAWrongNumberOfResultsIsNotSentAgain(t *testing.T) {
	// Its rows may have been added.
	if err := checkCount(0, 1).error("Enqueue"); err.Temporary || err.Applied != appliedUnknown {
		t.Errorf("%+v", err)
	}
}

func TestPauseBeforeARetryDoesNotOutlastTheLease(t *testing.T) {
	attempts := 0
	send := func(context.Context, *pb.WakeRequest, ...grpc.CallOption) (*pb.WakeResponse, error) {
		if attempts++; attempts <= 5 {
			return nil, status.Error(codes.Unavailable, "away")
		}
		return &pb.WakeResponse{}, nil
	}
	caller := &caller{onAttempt: func(*failure) {}, onRetry: func(retry) {}}
	// Heartbeats extend the lease of 400 ms meanwhile, so that 300 ms are always left.
	options := callOptions{
		attemptTimeout: 200 * time.Millisecond,
		until:          func() time.Time { return time.Now().Add(300 * time.Millisecond) },
	}
	if _, err := call(t.Context(), caller, "Wake", send, &pb.WakeRequest{}, options); err != nil {
		t.Errorf("after %d attempts: %v", attempts, err)
	}
}
