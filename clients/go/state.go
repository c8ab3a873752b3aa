// The state of a worker that its goroutines share: slots, leases, running handlers, and endings that are not settled.

package leasebroker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// The names of the causes in events.
const (
	causeLeaseLost = "lease_lost"
	causeTimeLimit = "time_limit"
	causeShutdown  = "shutdown"
)

const (
	// maxCheckpointBytes is the most that a broker can be configured to store. A longer checkpoint could exceed the size of a call.
	maxCheckpointBytes = 65_536
	// checkpointPause is the time for which checkpoints as long as a refused one are left out. Then the queue's setting may be another.
	checkpointPause = time.Minute
)

// defaultLease stands for the duration of a lease before one was seen.
const defaultLease = 30 * time.Second

type state struct {
	options *options
	events  *eventLog
	// base is the context from which those of the handlers are made.
	base context.Context
	// handle starts the handler of a run.
	handle func(*run)
	// now is time.Now, except in a test.
	now func() time.Time

	mu sync.Mutex
	// effects are the events and actions that follow a change. `update` runs them in order, without the lock. `spare` is
	// an empty list whose memory the next change uses.
	effects, spare []effect
	// losses are the items that another worker may process again. `unlock` logs those of a change together.
	losses map[loss][]*Item
	// slotsFree wakes the pollers, endingsReady the settler, clock the keeper, and changed the goroutine that stops.
	slotsFree, endingsReady *sync.Cond
	clock, changed          chan struct{}

	// lastDuration is that of the last lease. While no call is answered for longer, the worker is not healthy.
	lastDuration time.Duration
	// reserved counts the slots for which a claim is not answered yet.
	reserved  int
	held      map[string]*heldLease
	runs      map[*run]struct{}
	gathering gathering
	endings   []*ending
	// locked are endings whose rows are locked. They are queued again at their times.
	locked []*ending
	// settling is true while a group is being settled.
	settling bool
	stuck    int
	// takesItems is false as soon as the worker stops.
	takesItems bool
	// settledAll is true when the settler shall end with its last group.
	settledAll bool
	// nextBeat is the time of the next heartbeat. Zero: no lease is held.
	nextBeat time.Time
	// abandoned has the request ids of claims whose answer will not be read. The broker may have leased items for them.
	abandoned []string
	// Checkpoints of refusedBytes or more are left out until refusedUntil, because the broker has refused one.
	refusedBytes int
	refusedUntil time.Time
}

// maxLoggedKeys is the number of keys in a line about items that were lost.
const maxLoggedKeys = 10

// loss is the way in which items were lost.
type loss struct {
	// processed is true if the handler had ended, and had not released the item.
	processed bool
	reason    string
}

// effect is an action, or without one an event.
type effect struct {
	action func()
	event  Event
}

func newState(options *options, events *eventLog) *state {
	s := &state{
		options: options, events: events, base: context.Background(), now: time.Now,
		clock: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		held: map[string]*heldLease{}, runs: map[*run]struct{}{},
		gathering:    gathering{slots: options.concurrency},
		takesItems:   true,
		lastDuration: cmp.Or(options.lease, defaultLease),
	}
	s.slotsFree, s.endingsReady = sync.NewCond(&s.mu), sync.NewCond(&s.mu)
	return s
}

// update makes a change under the lock, and then runs its effects.
func (s *state) update(change func()) {
	s.mu.Lock()
	change()
	s.unlock()
}

// read looks at the state under the lock.
func (s *state) read(look func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	look()
}

// unlock releases the lock and runs the effects of the changes.
func (s *state) unlock() {
	effects := s.effects
	if len(effects) == 0 {
		s.mu.Unlock()
		return
	}
	losses := s.losses
	s.effects, s.spare, s.losses = s.spare, nil, nil
	s.mu.Unlock()
	s.logLosses(losses)
	for i := range effects {
		if action := effects[i].action; action != nil {
			action()
		} else {
			s.events.emit(effects[i].event)
		}
	}
	clear(effects)
	s.mu.Lock()
	s.spare = effects[:0]
	s.mu.Unlock()
}

func (s *state) emit(event Event) {
	s.effects = append(s.effects, effect{event: event})
}

// follow adds an action that is run after the change, such as a call of the logger, which may look at the worker.
func (s *state) follow(action func()) {
	s.effects = append(s.effects, effect{action: action})
}

// noteLoss notes that another worker may process an item again. A loss comes with an event.
func (s *state) noteLoss(lease *heldLease, reason string) {
	_, runs := s.runs[lease.run]
	if s.losses == nil {
		s.losses = map[loss][]*Item{}
	}
	kind := loss{processed: lease.run != nil && !runs && !lease.released, reason: reason}
	s.losses[kind] = append(s.losses[kind], lease.item)
}

// logLosses writes one line for the items that one call or one look at the clock has lost for the same reason.
func (s *state) logLosses(losses map[loss][]*Item) {
	for loss, items := range losses {
		text := "lease lost: another worker may process the item"
		if loss.processed {
			text = "processed, but another worker may process it again"
		}
		var keys []string
		var attempts []int
		for _, item := range items[:min(len(items), maxLoggedKeys)] {
			keys, attempts = append(keys, item.Key), append(attempts, item.Attempt)
		}
		s.options.logger.Warn(text, "queue", s.options.queue, "keys", keys, "attempts", attempts, "others", len(items)-len(keys),
			"reason", loss.reason)
	}
}

// reserveSlots takes the free slots for a claim. Returns 0 if the worker takes no items now.
func (s *state) reserveSlots() int {
	if !s.takesItems || s.stuck > s.options.maxStuck {
		return 0
	}
	// Otherwise a worker whose endings all meet a lock would claim without an end.
	resending := 0
	for _, lease := range s.held {
		if lease.phase == phaseResending {
			resending++
		}
	}
	if resending >= s.options.concurrency {
		return 0
	}
	slots := min(s.freeSlots(), s.options.maxSlotsPerCall())
	s.reserved += slots
	return slots
}

// freeSlots counts the slots that neither a handler nor a claim has. A stuck handler that may be replaced has none.
func (s *state) freeSlots() int {
	return s.options.concurrency + min(s.stuck, s.options.maxStuck) - len(s.runs) - s.reserved
}

// returnSlots ends the reservation of slots: their claim was answered.
func (s *state) returnSlots(slots int) {
	s.reserved -= slots
	s.wakePollers()
}

// mayClaim is true if a claim is useful. The call that settles endings claims the next items itself.
func (s *state) mayClaim() bool {
	return s.freeSlots() > 0 && !s.settling && len(s.endings) == 0
}

// wakePollers wakes them only for a claim: while endings are to be settled, that would cost more than a short handler.
func (s *state) wakePollers() {
	if s.mayClaim() {
		s.slotsFree.Broadcast()
	}
}

// accept starts handlers for the leases of a claim, for which `slots` slots were reserved.
func (s *state) accept(messages []*pb.Lease, slots int, sentAt, arrivedAt time.Time) {
	var leases []*heldLease
	now := s.now()
	for _, message := range messages {
		// A repeated response can have a lease that the worker holds already.
		if s.held[message.GetLeaseId()] == nil {
			lease := newHeldLease(s, message, sentAt, arrivedAt)
			s.held[lease.id], s.lastDuration = lease, lease.duration
			s.emit(Event{Name: EventClaimed, Item: lease.item})
			if !now.Before(lease.lostAt()) {
				// The process was suspended since the response arrived.
				s.lose(lease, s.options.lostReason())
				continue
			}
			leases = append(leases, lease)
			beat := now
			if !lease.unconfirmed {
				beat = beat.Add(lease.beatPeriod())
			}
			if s.nextBeat.IsZero() || beat.Before(s.nextBeat) {
				s.nextBeat = beat
			}
		}
	}
	notify(s.clock)
	if !s.takesItems {
		for _, lease := range leases {
			s.settle(released(lease, nil))
		}
		s.returnSlots(slots)
		return
	}
	for leases := range slices.Chunk(leases, s.options.batch) {
		s.start(leases)
	}
	s.returnSlots(slots)
}

// start runs the handler for leases that fill one slot.
func (s *state) start(leases []*heldLease) {
	run := &run{leases: leases, startedAt: s.now()}
	ctx, cancel := context.WithCancelCause(s.base)
	run.ctx, run.cancel = ctx, cancel
	if limit := s.options.timeLimit; limit > 0 {
		run.ctx = limitedContext{ctx, run.startedAt.Add(limit)}
	}
	s.runs[run] = struct{}{}
	for _, lease := range leases {
		lease.run = run
		s.emit(Event{Name: EventStarted, Item: lease.item})
	}
	s.follow(func() { s.handle(run) })
}

// end takes the endings of a handler that has returned. Endings of leases that are done already are dropped.
func (s *state) end(run *run, endings []*ending) {
	delete(s.runs, run)
	for _, lease := range run.leases {
		// The process may have been stopped for so long that the keeper has not looked yet.
		if lease.phase == phaseRunning && !s.now().Before(lease.lostAt()) {
			s.lose(lease, s.options.lostReason())
		}
	}
	s.gathering.note(s.now().Sub(run.startedAt))
	for _, ending := range endings {
		s.settle(ending)
	}
	if run.stuck {
		s.stuck--
	}
	s.wakePollers()
	notify(s.changed)
}

// settle passes an ending to the settler, unless the lease has ended already.
func (s *state) settle(ending *ending) {
	if ending.lease.phase == phaseRunning {
		ending.lease.phase, ending.lease.released = phaseEnded, ending.rpc == rpcRelease
		if ending.rpc != rpcComplete {
			ending.checkpoint = s.sendable(ending.lease)
		}
		s.endings = append(s.endings, ending)
		s.endingsReady.Signal()
	}
}

// requeueLocked queues endings again whose pause after a lock is over, or all.
func (s *state) requeueLocked(all bool) {
	locked := s.locked
	s.locked = nil
	for _, ending := range locked {
		if all || !s.now().Before(ending.sendAt) {
			s.endings = append(s.endings, ending)
		} else {
			s.locked = append(s.locked, ending)
		}
	}
}

// drop forgets a lease.
func (s *state) drop(lease *heldLease) {
	lease.phase = phaseDone
	delete(s.held, lease.id)
}

// lose drops a lease that was lost, and cancels its handler if it has no other lease.
func (s *state) lose(lease *heldLease, reason string) {
	s.emit(Event{Name: EventLost, Item: lease.item, Reason: reason})
	s.noteLoss(lease, cmp.Or(reason, "the broker has ended the lease"))
	s.drop(lease)
	if _, running := s.runs[lease.run]; !running {
		return
	}
	for _, other := range lease.run.leases {
		if other.phase != phaseDone {
			return
		}
	}
	cause := ErrLeaseLost
	if reason != "" {
		cause = fmt.Errorf("%w: %s", ErrLeaseLost, reason)
	}
	s.cancel(lease.run, causeLeaseLost, cause, reason)
}

// cancel cancels a handler, unless it is cancelled already.
func (s *state) cancel(run *run, name string, cause error, reason string) {
	if run.cause != "" {
		return
	}
	run.cause, run.cancelledAt = name, s.now()
	for _, lease := range run.leases {
		s.emit(Event{Name: EventCancelled, Item: lease.item, Cause: name, Reason: reason})
	}
	s.follow(func() { run.cancel(cause) })
	notify(s.clock)
}

// cancelHandlers cancels all handlers, because the worker stops.
func (s *state) cancelHandlers() {
	for run := range s.runs {
		s.cancel(run, causeShutdown, ErrShutdown, "")
	}
}

// leaveHandlers drops the leases of handlers that do not return. Returns whether there are any.
func (s *state) leaveHandlers() bool {
	for run := range s.runs {
		for _, lease := range run.leases {
			if lease.phase == phaseRunning {
				s.drop(lease)
			}
		}
	}
	return len(s.runs) > 0
}

func (s *state) saveCheckpoint(lease *heldLease, checkpoint []byte) {
	s.update(func() {
		// A later one could replace the last one of the handler, for its next attempt.
		if lease.phase != phaseRunning {
			return
		}
		if size := len(checkpoint); size > maxCheckpointBytes {
			s.refuseCheckpoint(lease, size, fmt.Sprintf("a queue stores at most %d bytes", maxCheckpointBytes))
			return
		}
		lease.checkpoint = append([]byte{}, checkpoint...)
		lease.saved++
	})
}

// sendable returns the checkpoint of a lease, or nil if it is left out of the calls that are sent now.
func (s *state) sendable(lease *heldLease) []byte {
	if s.isRefused(len(lease.checkpoint)) {
		return nil
	}
	return lease.checkpoint
}

func (s *state) isRefused(bytes int) bool {
	return bytes >= s.refusedBytes && s.now().Before(s.refusedUntil)
}

// refuseCheckpoint leaves a checkpoint that was refused, and others that are as long, out of the next calls.
func (s *state) refuseCheckpoint(lease *heldLease, bytes int, reason string) {
	if s.isRefused(bytes) {
		return
	}
	s.refusedBytes, s.refusedUntil = bytes, s.now().Add(checkpointPause)
	s.follow(func() {
		s.options.logger.Error("checkpoint is not stored, and none as long is sent for a minute", "queue", s.options.queue,
			"key", lease.item.Key, "bytes", bytes, "error", reason)
	})
}

// notify wakes the goroutine that waits on a channel, now or when it next waits.
func notify(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}
