package leasebroker

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

func TestSettlementIsRefusedOnTheWayWhenHeartbeatsAreAnsweredMeanwhile(t *testing.T) {
	type attempt struct {
		at          time.Duration
		code        codes.Code
		isAnswered  bool // A heartbeat is answered after this attempt.
		wantRefuses bool
	}
	for name, attempts := range map[string][]attempt{
		"a proxy answers":      {{0, codes.Internal, true, false}, {1, codes.Unknown, true, false}, {10, codes.Internal, true, false}, {11, codes.Internal, true, true}},
		"an outage":            {{0, codes.Internal, false, false}, {1, codes.Internal, false, false}, {60, codes.Internal, false, false}},
		"the end of an outage": {{0, codes.Internal, false, false}, {60, codes.Internal, true, false}, {61, codes.Internal, true, false}, {70, codes.Internal, true, false}},
		"an outage in between": {{0, codes.Internal, true, false}, {1, codes.Internal, false, false}, {9, codes.Internal, true, false}, {12, codes.Internal, true, false}},
		"the broker is away":   {{0, codes.Unavailable, true, false}, {1, codes.Unavailable, true, false}, {60, codes.Unavailable, true, false}},
		"the broker is silent": {{0, codes.DeadlineExceeded, true, false}, {60, codes.DeadlineExceeded, true, false}},
		"it fails otherwise":   {{0, codes.Internal, true, false}, {1, codes.Internal, true, false}, {5, codes.Unavailable, true, false}, {12, codes.Internal, true, false}},
	} {
		state := newState(&options{concurrency: 1}, newEventLog("work", nil, nil))
		lease := &heldLease{}
		begun := time.Now()
		way := &way{state: state, group: []*ending{{lease: lease}}}
		for _, attempt := range attempts {
			now := begun.Add(attempt.at * time.Second)
			state.now = func() time.Time { return now }
			if refuses := way.note(&failure{code: attempt.code}); refuses != attempt.wantRefuses {
				t.Errorf("%s: after %d s it is %v", name, attempt.at, refuses)
			}
			if attempt.isAnswered {
				lease.lastAnswer = now
			}
		}
	}
}

func TestPartOfARefusedSettlementIsRefusedByItsFirstAttempt(t *testing.T) {
	state := newState(&options{concurrency: 1}, newEventLog("work", nil, nil))
	begun := time.Now()
	group := []*ending{{lease: &heldLease{}}, {lease: &heldLease{}}}
	whole := &way{state: state, group: group}
	for _, at := range []time.Duration{0, 1, 11} {
		for _, ending := range group {
			ending.lease.lastAnswer = state.now()
		}
		now := begun.Add(at * time.Second)
		state.now = func() time.Time { return now }
		whole.note(&failure{code: codes.Internal})
	}
	// No heartbeat is sent between the last attempt of the whole and the first one of a part.
	if !whole.refuses || !whole.of(group[1:]).note(&failure{code: codes.Internal}) {
		t.Error("it is sent again")
	}
	if whole.of(group[1:]).note(&failure{code: codes.Internal, reason: "INTERNAL"}) {
		t.Error("an error of the broker is one of the way")
	}
}
