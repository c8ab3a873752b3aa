// The keeper: sends heartbeats, and watches the times of leases and handlers. It has its own goroutine and connection, so
// that neither a handler nor a waiting claim delays a heartbeat.

package leasebroker

import (
	"context"
	"runtime"
	"time"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

const (
	// timeLimitGrace is the time after which a handler that was cancelled for the time limit has failed its item.
	timeLimitGrace = 5 * time.Second
	maxBeatBytes   = 3 << 20
	maxStackBytes  = 1 << 20
)

type keeper struct {
	state     *state
	caller    *caller
	transport *transport
	onFatal   func(error)
	// freshToken is true after the broker has refused the token of a heartbeat.
	freshToken bool
}

// beat is one Heartbeat call.
type beat struct {
	leases   []*heldLease
	renewals []*pb.Renewal
	// saved has the numbers of the checkpoints that are stored if the call is applied.
	saved []int
	size  int
	// period is the time until the next ones, and the time of the attempt.
	period time.Duration
	fresh  bool
}

// run keeps the leases until the context ends.
func (k *keeper) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.state.clock:
		case <-timer.C:
		}
		beats, wakeAt := k.look()
		for _, beat := range beats {
			go k.send(ctx, beat)
		}
		timer.Reset(time.Until(wakeAt))
	}
}

// look acts on the times of leases and handlers. Returns the heartbeats that are due, and the moment to look again.
func (k *keeper) look() ([]*beat, time.Time) {
	var beats []*beat
	now := k.state.now()
	wake := &alarm{at: now.Add(time.Hour)}
	k.state.update(func() {
		for _, lease := range k.state.held {
			k.watchLease(lease, now, wake)
		}
		for run := range k.state.runs {
			k.watchRun(run, now, wake)
		}
		beats = k.beats(now, wake)
	})
	return beats, wake.at
}

// alarm is the next moment to look again.
type alarm struct{ at time.Time }

func (a *alarm) noLaterThan(at time.Time) {
	if at.Before(a.at) {
		a.at = at
	}
}

// watchLease acts on the times of a lease.
func (k *keeper) watchLease(lease *heldLease, now time.Time, wake *alarm) {
	if lease.phase != phaseRunning && lease.phase != phaseEnded {
		return // Its settling call ends at the deadline by itself.
	}
	lostAt := lease.lostAt()
	if !now.Before(lostAt) {
		k.state.lose(lease, k.state.options.lostReason())
		return
	}
	wake.noLaterThan(lostAt)
	if lease.phase == phaseEnded || lease.inDoubt {
		return
	}
	doubtAt := lease.lastAnswer.Add(lease.duration / 2)
	switch {
	case now.Before(doubtAt):
		wake.noLaterThan(doubtAt)
	case k.state.options.heartbeat:
		lease.inDoubt = true
		k.state.emit(Event{Name: EventHeartbeatMissed, Item: lease.item})
	default:
		k.state.cancel(lease.run, causeTimeLimit, ErrTimeLimit, "")
	}
}

// watchRun acts on the times of a handler.
func (k *keeper) watchRun(run *run, now time.Time, wake *alarm) {
	options := k.state.options
	if run.cause == "" {
		if options.timeLimit == 0 {
			return
		}
		limitAt := run.startedAt.Add(options.timeLimit)
		if now.Before(limitAt) {
			wake.noLaterThan(limitAt)
			return
		}
		k.state.cancel(run, causeTimeLimit, ErrTimeLimit, "")
	}
	if run.cause == causeTimeLimit && options.heartbeat {
		failAt := run.cancelledAt.Add(min(timeLimitGrace, options.stuckAfter))
		if now.Before(failAt) {
			wake.noLaterThan(failAt)
		} else {
			for _, lease := range run.leases {
				k.state.settle(failed(lease, timeLimitText(options.timeLimit)))
			}
		}
	}
	stuckAt := run.cancelledAt.Add(options.stuckAfter)
	switch {
	case run.stuck:
	case now.Before(stuckAt):
		wake.noLaterThan(stuckAt)
	default:
		k.giveUp(run)
	}
}

// giveUp drops the leases of a handler that does not stop, and makes room for another handler.
func (k *keeper) giveUp(run *run) {
	state := k.state
	run.stuck = true
	state.stuck++
	for _, lease := range run.leases {
		if lease.phase == phaseRunning {
			state.drop(lease)
		}
		event := Event{Name: EventStuck, Item: lease.item, Cause: run.cause}
		state.follow(func() {
			event.Stack = stacks()
			state.events.emit(event)
		})
	}
	state.wakePollers()
	stuck := state.stuck
	state.follow(func() {
		state.options.logger.Error("handler does not stop", "queue", state.options.queue, "key", run.leases[0].item.Key,
			"stuck", stuck, "max_stuck", state.options.maxStuck)
	})
}

// beats returns the heartbeats that are due, and sets the time of the next ones.
func (k *keeper) beats(now time.Time, wake *alarm) []*beat {
	state := k.state
	if !state.options.heartbeat || state.nextBeat.IsZero() {
		return nil
	}
	if now.Before(state.nextBeat) {
		wake.noLaterThan(state.nextBeat)
		return nil
	}
	var beats []*beat
	period := time.Duration(0)
	for _, lease := range state.held {
		if !lease.wantsHeartbeat() {
			continue
		}
		if period == 0 || lease.beatPeriod() < period {
			period = lease.beatPeriod()
		}
		renewal, saved := &pb.Renewal{LeaseId: lease.id}, lease.stored
		if lease.saved != lease.stored {
			if renewal.Checkpoint = state.sendable(lease); renewal.Checkpoint != nil {
				saved = lease.saved
			}
		}
		size := len(renewal.LeaseId) + len(renewal.Checkpoint) + 16
		last := len(beats) - 1
		if last < 0 || len(beats[last].leases) == maxItemsPerCall || beats[last].size+size > maxBeatBytes {
			beats = append(beats, &beat{fresh: k.freshToken})
			last++
		}
		call := beats[last]
		call.leases = append(call.leases, lease)
		call.renewals = append(call.renewals, renewal)
		call.saved = append(call.saved, saved)
		call.size += size
	}
	if beats == nil {
		state.nextBeat = time.Time{}
		return nil
	}
	for _, beat := range beats {
		beat.period = period
	}
	state.nextBeat = now.Add(period)
	wake.noLaterThan(state.nextBeat)
	return beats
}

// send sends a heartbeat once. If it fails, the next one comes soon.
func (k *keeper) send(ctx context.Context, beat *beat) {
	// Without a duration the broker extends each lease by its own.
	request := &pb.HeartbeatRequest{Queue: k.state.options.queue, Renewals: beat.renewals}
	sentAt := time.Now()
	response, failure := attempt(ctx, k.caller, k.transport.client.Heartbeat, request, beat.period, beat.fresh)
	if ctx.Err() != nil {
		return
	}
	if failure == nil {
		failure = checkCount(len(response.GetResults()), len(beat.leases))
	}
	k.state.update(func() {
		if failure == nil {
			k.note(beat, response, sentAt)
		} else {
			k.noteFailure(beat, failure)
		}
	})
}

// beatSoon sends the next heartbeat soon after one that failed or was refused for now.
func (k *keeper) beatSoon(beat *beat) {
	if next := k.state.now().Add(beat.period / 4); next.Before(k.state.nextBeat) {
		k.state.nextBeat = next
	}
}

// noteFailure sends the next heartbeat soon after one that failed.
func (k *keeper) noteFailure(beat *beat, failure *failure) {
	k.beatSoon(beat)
	notify(k.state.clock)
	k.state.follow(func() {
		k.state.options.logger.Debug("heartbeat failed", "code", failure.code, "error", failure.message)
	})
	if err := failure.error("Heartbeat"); err.refusesCaller() {
		if beat.fresh || k.caller.token == nil {
			k.state.follow(func() { k.onFatal(err) })
		}
		k.freshToken = true
	}
}

// note takes the response to a heartbeat.
func (k *keeper) note(beat *beat, response *pb.HeartbeatResponse, sentAt time.Time) {
	k.freshToken = false
	extended := 0
	for i, result := range response.GetResults() {
		lease := beat.leases[i]
		switch {
		case result.GetOutcome() == pb.Outcome_OUTCOME_APPLIED:
			extended++
			lease.extend(sentAt, result.GetTimeLeft().AsDuration())
			lease.stored = max(lease.stored, beat.saved[i])
		case result.GetOutcome() == pb.Outcome_OUTCOME_REFUSED:
			// The lease is held and was not extended.
			checkpoint, refusal := beat.renewals[i].Checkpoint, result.GetRefusal()
			if checkpoint == nil || isLocked(refusal) {
				k.beatSoon(beat)
				continue
			}
			// It is sent again without the checkpoint.
			k.state.refuseCheckpoint(lease, len(checkpoint), refusal.GetMessage())
			k.state.nextBeat = k.state.now()
		case lease.phase == phaseRunning || lease.phase == phaseEnded:
			// If it is being settled, the settling call may have ended it, and its outcome will say.
			k.state.lose(lease, result.GetCancelReason())
		}
	}
	k.state.emit(Event{Name: EventHeartbeat, Count: extended})
	notify(k.state.clock)
}

// stacks returns the stacks of all goroutines, cut at maxStackBytes.
func stacks() string {
	buffer := make([]byte, maxStackBytes)
	return string(buffer[:runtime.Stack(buffer, true)])
}
