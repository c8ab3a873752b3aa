// A lease as its worker holds it, and the run of a handler.

package leasebroker

import (
	"context"
	"time"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// phase is how far a lease has come. It only moves forward, except that a refused settlement returns it to phaseRunning.
type phase int

const (
	phaseRunning   phase = iota // its handler runs
	phaseEnded                  // its handler has ended, and the settling call was not sent yet
	phaseSettling               // the settling call is in its first attempt: LEASE_LOST of a heartbeat means nothing
	phaseResending              // it is sent again, or waits because the row is locked: heartbeats keep the lease
	phaseDone                   // it is settled, lost or given up
)

// heldLease is a lease. The worker's lock guards it.
type heldLease struct {
	state *state
	id    string
	item  *Item
	run   *run
	phase phase
	// released is true if the item was released, and not processed.
	released bool
	// duration is the time that the lease lasts after a heartbeat.
	duration time.Duration
	// deadline is the moment until which the lease holds. It is not later than the database's, unless the lease is
	// unconfirmed.
	deadline time.Time
	// unconfirmed is true until the first heartbeat of a lease whose claim has waited for items. Its time began at some
	// moment of the wait, so its deadline can be late by the time that the response took.
	unconfirmed bool
	// lastAnswer is the moment before the last request was sent that was answered for this lease.
	lastAnswer time.Time
	inDoubt    bool
	// checkpoint is the last one that the handler has saved. Nil: none. `saved` counts them, and `stored` is the number of
	// the last one that a heartbeat has stored.
	checkpoint    []byte
	saved, stored int
}

func newHeldLease(state *state, message *pb.Lease, sentAt, arrivedAt time.Time) *heldLease {
	duration := message.GetTimeLeft().AsDuration()
	lease := &heldLease{
		state: state, id: message.GetLeaseId(), item: itemFromProto(message),
		duration: duration, deadline: sentAt.Add(duration), lastAnswer: sentAt,
	}
	lease.item.lease = lease
	if arrivedAt.Sub(sentAt) > duration/10 {
		lease.deadline, lease.lastAnswer, lease.unconfirmed = arrivedAt.Add(duration), arrivedAt, true
	}
	return lease
}

// extend takes the answer to a heartbeat that was sent at `sentAt`.
func (l *heldLease) extend(sentAt time.Time, timeLeft time.Duration) {
	if deadline := sentAt.Add(timeLeft); deadline.After(l.deadline) || l.unconfirmed {
		l.deadline, l.unconfirmed = deadline, false
	}
	if sentAt.After(l.lastAnswer) {
		l.lastAnswer = sentAt
	}
	l.duration = max(l.duration, timeLeft)
	l.inDoubt = false
}

// lostAt is the moment at which the worker gives the lease up. With heartbeats that is early enough for the handler to stop
// before another worker starts. Without them a handler has until the deadline to end.
func (l *heldLease) lostAt() time.Time {
	if l.state.options.heartbeat {
		return l.deadline.Add(-l.duration / 10)
	}
	return l.deadline
}

func (l *heldLease) wantsHeartbeat() bool {
	return l.phase == phaseRunning || l.phase == phaseEnded || l.phase == phaseResending
}

// beatPeriod is the time between two heartbeats.
func (l *heldLease) beatPeriod() time.Duration {
	return max(l.duration/3, 250*time.Millisecond)
}

// run is a handler that runs, with the leases that it works on: one, or those of a batch. The worker's lock guards it.
type run struct {
	leases      []*heldLease
	ctx         context.Context
	cancel      context.CancelCauseFunc
	cause       string
	startedAt   time.Time
	cancelledAt time.Time
	stuck       bool
}

func (r *run) items() []*Item {
	items := make([]*Item, len(r.leases))
	for i, lease := range r.leases {
		items[i] = lease.item
	}
	return items
}

// limitedContext tells handlers their time limit. The keeper cancels it, so that the event comes before the cancellation.
type limitedContext struct {
	context.Context
	deadline time.Time
}

func (c limitedContext) Deadline() (time.Time, bool) { return c.deadline, true }
