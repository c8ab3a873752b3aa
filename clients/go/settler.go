// The settler: tells the broker how items have ended, in groups, and claims the next items by the same call.

package leasebroker

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// The limits of one call: follow-ups of all items, and bytes, below the broker's 4 MiB.
const (
	maxFollowUps  = 1000
	maxGroupBytes = 3 << 20
)

type settler struct {
	state     *state
	caller    *caller
	transport *transport
	onFatal   func(error)
}

// settlement is a response to one of the three settling calls.
type settlement interface {
	GetResults() []*pb.SettleResult
}

// nextOf returns the answer to the claim in a settling call: its response, or its error.
func nextOf(message settlement) (*pb.ClaimBatchResponse, *pb.CallError) {
	if with, ok := message.(interface {
		GetNext() *pb.ClaimBatchResponse
		GetNextError() *pb.CallError
	}); ok {
		return with.GetNext(), with.GetNextError()
	}
	return nil, nil
}

var appliedEvents = map[string]EventName{rpcComplete: EventCompleted, rpcFail: EventFailed, rpcRelease: EventReleased}

// run settles until settledAll is set and no ending is left. When the context ends, it waits for no answer any more.
func (s *settler) run(ctx context.Context) {
	defer context.AfterFunc(ctx, s.look)()
	for s.waitForEndings(ctx) {
		s.gather()
		parts, slots := s.take()
		slots = s.settle(ctx, parts, slots)
		s.state.update(func() {
			s.state.settling = false
			s.state.returnSlots(slots)
		})
	}
}

// look makes the settler look for endings that it can send.
func (s *settler) look() { s.state.update(s.state.endingsReady.Signal) }

func (s *settler) waitForEndings(ctx context.Context) bool {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	for {
		s.state.requeueLocked(ctx.Err() != nil)
		if len(s.state.endings) > 0 {
			return true
		}
		if s.state.settledAll && len(s.state.locked) == 0 {
			return false
		}
		s.state.endingsReady.Wait()
	}
}

// gather lets handlers that end at the same time share a call. If the handlers are long it waits, else it yields as long as that
// brings further endings.
func (s *settler) gather() {
	for seen := 0; ; runtime.Gosched() {
		var wait time.Duration
		var found int
		s.state.read(func() { wait, found = s.state.gathering.wait(len(s.state.runs)), len(s.state.endings) })
		if wait > 0 {
			time.Sleep(wait)
			return
		}
		if found <= seen || found >= maxItemsPerCall {
			return
		}
		seen = found
	}
}

// take takes the next group, with one part for each kind of endings, and the slots for which the call claims.
func (s *settler) take() (parts [][]*ending, slots int) {
	s.state.update(func() {
		parts = byKind(takeGroup(s.state))
		s.state.settling = true
		slots = s.state.reserveSlots()
	})
	return parts, slots
}

// byKind returns the completions, the failures and the releases of a group, without empty parts.
func byKind(group []*ending) (parts [][]*ending) {
	for _, rpc := range []string{rpcComplete, rpcFail, rpcRelease} {
		isOther := func(ending *ending) bool { return ending.rpc != rpc }
		if part := slices.DeleteFunc(slices.Clone(group), isOther); len(part) > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}

// settle settles the parts of a group by calls at the same time. Returns the slots for which nothing was claimed.
func (s *settler) settle(ctx context.Context, parts [][]*ending, slots int) int {
	if len(parts) == 0 {
		return slots
	}
	// The first call claims the next items. A Release cannot.
	claimed := 0
	if parts[0][0].rpc != rpcRelease {
		claimed = slots
	}
	var others sync.WaitGroup
	for _, part := range parts[1:] {
		others.Go(func() { s.send(ctx, part, 0, s.wayOf(part)) })
	}
	s.send(ctx, parts[0], claimed, s.wayOf(parts[0]))
	others.Wait()
	return slots - claimed
}

// postpone sends endings whose rows are locked again after a pause, unless their leases end before.
func (s *settler) postpone(locked []*ending) {
	if len(locked) == 0 {
		return
	}
	s.state.update(func() { s.noteRetry(locked) })
	tries := 1 + slices.MaxFunc(locked, func(a, b *ending) int { return a.tries - b.tries }).tries
	left := lastDeadline(s.state, locked).Sub(s.state.now())
	wait, err := s.caller.pauseAfterLock(locked[0].rpc, tries, left, settleTimeout(s.state, locked))
	s.state.update(func() {
		if err != nil {
			s.noteNoAnswer(locked, err)
			return
		}
		for _, ending := range locked {
			ending.tries, ending.sendAt = tries, s.state.now().Add(wait)
		}
		s.state.locked = append(s.state.locked, locked...)
		time.AfterFunc(wait, s.look)
	})
}

// send sends endings of one kind, and claims for `slots` slots.
func (s *settler) send(ctx context.Context, group []*ending, slots int, way *way) {
	var next *pb.NextClaim
	if slots > 0 {
		next = s.nextClaim(slots)
	}
	answer, err := s.call(ctx, group, next, way)
	var refused *CallError
	if err != nil && next != nil && answer.applied != appliedNo {
		s.state.update(func() { s.state.abandoned = append(s.state.abandoned, next.RequestId) })
	}
	if errors.As(err, &refused) && (way.refuses || refused.refusesRequest()) {
		s.state.update(func() { s.state.returnSlots(slots) })
		if refused.isAboutNext() {
			// A poller claims for the slots, and takes the error of its own claim.
			s.send(ctx, group, 0, s.wayOf(group))
		} else {
			s.sendAlone(ctx, group, refused, way)
		}
		return
	}
	claimed, nextError := nextOf(answer.message)
	var locked []*ending
	s.state.update(func() {
		if err != nil {
			s.noteNoAnswer(group, err)
		} else {
			locked = s.note(group, answer)
		}
		if nextError == nil {
			s.state.accept(claimed.GetLeases(), slots, answer.sentAt, answer.arrivedAt)
		}
	})
	if nextError != nil {
		s.claimFailed(readCallError(nextError), next.GetRequestId(), slots)
	}
	if refused != nil && refused.refusesCaller() {
		s.onFatal(refused)
	}
	s.postpone(locked)
}

// claimFailed takes the error of a claim in `next`, as a poller takes that of its own claim. The slots wait for as long as the
// broker asks, and then a poller claims for them.
func (s *settler) claimFailed(failure *failure, requestID string, slots int) {
	if failure.applied != appliedNo {
		s.state.update(func() { s.state.abandoned = append(s.state.abandoned, requestID) })
	}
	if !failure.mayPass() {
		s.state.update(func() { s.state.returnSlots(slots) })
		s.onFatal(failure.error("ClaimBatch"))
		return
	}
	wait := jitter(minBackoff)
	if failure.asksToWait() {
		wait = *failure.pushback
	}
	s.caller.onRetry(retry{"ClaimBatch", failure, 1, wait})
	time.AfterFunc(wait, func() { s.state.update(func() { s.state.returnSlots(slots) }) })
}

// sendAlone settles the endings of a refused call one by one, so that only the malformed one fails.
func (s *settler) sendAlone(ctx context.Context, group []*ending, refused *CallError, way *way) {
	if refused.Reason == "" {
		const text = "a settlement is refused on the way to the broker: its items are settled one by one, or failed"
		s.state.options.logger.Warn(text, "queue", s.state.options.queue, "items", len(group), "error", refused)
	}
	if len(group) == 1 {
		s.state.update(func() { s.refuse(group[0], "", refused.Message) })
		return
	}
	for i := range group {
		s.send(ctx, group[i:i+1], 0, way.of(group[i:i+1]))
	}
}

// wayOf returns the judge of the attempts of a settlement.
func (s *settler) wayOf(group []*ending) *way { return &way{state: s.state, group: group} }

// call sends the settling call of a group until the last of its leases ends.
func (s *settler) call(
	ctx context.Context, group []*ending, next *pb.NextClaim, way *way,
) (answer[settlement], error) {
	options := callOptions{
		attemptTimeout: settleTimeout(s.state, group),
		until:          func() time.Time { return lastDeadline(s.state, group) },
		onRetry:        func() { s.state.update(func() { s.noteRetry(group) }) },
		givesUp:        way.note,
	}
	queue, client := s.state.options.queue, s.transport.client
	switch group[0].rpc {
	case rpcComplete:
		request := &pb.CompleteRequest{Queue: queue, Next: next}
		for _, e := range group {
			request.Completions = append(request.Completions, e.completion)
		}
		return settled(ctx, s.caller, rpcComplete, client.Complete, request, options, group)
	case rpcFail:
		request := &pb.FailRequest{Queue: queue, Next: next}
		for _, e := range group {
			request.Failures = append(request.Failures, &pb.Failure{
				LeaseId: e.lease.id, ErrorMessage: e.text, DeadLetter: e.dead, RetryDelay: e.delay, Checkpoint: e.checkpoint,
			})
		}
		return settled(ctx, s.caller, rpcFail, client.Fail, request, options, group)
	default:
		request := &pb.ReleaseRequest{Queue: queue}
		for _, e := range group {
			request.Releases = append(request.Releases, &pb.Release{LeaseId: e.lease.id, Delay: e.delay, Checkpoint: e.checkpoint})
		}
		return settled(ctx, s.caller, rpcRelease, client.Release, request, options, group)
	}
}

func (s *settler) nextClaim(slots int) *pb.NextClaim {
	options := s.state.options
	claim := &pb.NextClaim{
		WorkerId:  options.workerID,
		MaxItems:  int32(slots * options.batch),
		RequestId: newRequestID(),
		MaxBytes:  maxResponseBytes,
		Groups:    options.groups,
	}
	if options.lease > 0 {
		claim.LeaseDuration = durationpb.New(options.lease)
	}
	return claim
}

// noteRetry keeps the leases of a settlement that is sent again by heartbeats: this may take a while.
func (s *settler) noteRetry(group []*ending) {
	for _, ending := range group {
		if ending.lease.phase == phaseSettling {
			ending.lease.phase = phaseResending
		}
	}
	s.state.nextBeat = s.state.now()
	notify(s.state.clock)
}

// noteNoAnswer forgets the leases of a settlement that will get no answer.
func (s *settler) noteNoAnswer(group []*ending, err error) {
	for _, ending := range group {
		s.state.emit(Event{Name: EventUnknown, Item: ending.lease.item, Error: err.Error()})
		s.state.noteLoss(ending.lease, err.Error())
		s.state.drop(ending.lease)
	}
}

// note takes the outcome of each ending. Returns the endings whose rows are locked: they can be sent again as they are.
func (s *settler) note(group []*ending, answer answer[settlement]) (locked []*ending) {
	for i, result := range answer.message.GetResults() {
		ending := group[i]
		event := Event{Item: ending.lease.item}
		switch result.GetOutcome() {
		case pb.Outcome_OUTCOME_REFUSED:
			if isLocked(result.GetRefusal()) {
				locked = append(locked, ending)
				continue
			}
			s.refuse(ending, result.GetRefusal().GetField(), refusalText(result.GetRefusal()))
			continue
		case pb.Outcome_OUTCOME_APPLIED:
			event.Name, event.Error = appliedEvents[ending.rpc], ending.text
		case pb.Outcome_OUTCOME_GONE:
			// If the request was sent before, while the lease held, that one has removed the row.
			event.Name = EventCompleted
			if answer.attempts == 1 || !answer.firstSentAt.Before(ending.lease.deadline) {
				event.Name = EventUnknown
				s.state.noteLoss(ending.lease, "the row is gone")
			}
		default:
			event.Name = EventLost
			s.state.noteLoss(ending.lease, "the broker had ended the lease")
		}
		s.state.emit(event)
		s.state.drop(ending.lease)
	}
	return locked
}

// isLocked is true if nothing is wrong with the entry. Another transaction has locked its row, so it can be sent again as it is.
func isLocked(refusal *pb.Refusal) bool {
	return refusal.GetReason() == pb.RefusalReason_REFUSAL_REASON_LOCKED
}

// refuse settles an item in another way if the broker has refused its ending: the same one can never succeed. A failure or a
// release is sent again without the refused field. If that is not known, the checkpoint is left out first.
func (s *settler) refuse(ending *ending, field, problem string) {
	lease := ending.lease
	s.state.emit(Event{Name: EventRefused, Item: lease.item, Reason: problem})
	// The broker stores the reason too, but only the last one of each item.
	rpc := ending.rpc
	s.state.follow(func() {
		s.state.options.logger.Warn("ending refused", "queue", s.state.options.queue, "rpc", rpc, "key", lease.item.Key,
			"attempt", lease.item.Attempt, "error", problem)
	})
	switch {
	case ending.rpc == rpcComplete:
		ending = failed(lease, "Refused: "+problem)
	case ending.checkpoint != nil && field != "retry_delay" && field != "delay":
		s.state.refuseCheckpoint(lease, len(ending.checkpoint), problem)
	case ending.delay != nil:
		ending.delay = nil
	default:
		s.state.drop(lease)
		return
	}
	lease.phase = phaseRunning
	s.state.settle(ending)
}

// refusalText returns the path of the refused field, if it is known, and the broker's text.
func refusalText(refusal *pb.Refusal) string {
	if refusal.GetField() == "" {
		return refusal.GetMessage()
	}
	return refusal.GetField() + ": " + refusal.GetMessage()
}

// takeGroup takes the endings that one call can carry, in the order in which the handlers ended.
func takeGroup(state *state) []*ending {
	var group []*ending
	followUps, size, taken := 0, 0, 0
	for _, ending := range state.endings {
		followUps += ending.followUps()
		size += ending.size()
		if len(group) > 0 && (len(group) == maxItemsPerCall || followUps > maxFollowUps || size > maxGroupBytes) {
			break
		}
		// One whose row was locked may wait for the lock again, and others would wait with it.
		if len(group) > 0 && (ending.lease.phase == phaseResending) != (group[0].lease.phase == phaseResending) {
			break
		}
		taken++
		switch {
		case ending.lease.phase == phaseDone:
			// The lease was lost while its ending waited.
		case !state.now().Before(ending.lease.deadline):
			state.lose(ending.lease, state.options.lostReason())
		default:
			ending.lease.phase = max(ending.lease.phase, phaseSettling)
			group = append(group, ending)
		}
	}
	state.endings = slices.Clone(state.endings[taken:])
	return group
}

func lastDeadline(state *state, group []*ending) (last time.Time) {
	state.read(func() {
		for _, ending := range group {
			if ending.lease.deadline.After(last) {
				last = ending.lease.deadline
			}
		}
	})
	return last
}

// settleTimeout is the deadline of an attempt. If a connection is dead, another attempt must be made before a lease ends.
func settleTimeout(state *state, group []*ending) time.Duration {
	state.mu.Lock()
	defer state.mu.Unlock()
	timeout := attemptTimeout
	for _, ending := range group {
		timeout = min(timeout, max(ending.lease.duration/2, time.Second))
	}
	return timeout
}

// settled sends a settling call. Returns an error if the answer has not one result for each ending of the group.
func settled[Request proto.Message, Response settlement](
	ctx context.Context, c *caller, rpc string, send method[Request, Response], request Request, options callOptions, group []*ending,
) (answer[settlement], error) {
	from, err := call(ctx, c, rpc, send, request, options)
	if err == nil {
		if failure := checkCount(len(from.message.GetResults()), len(group)); failure != nil {
			return answer[settlement]{applied: failure.applied}, failure.error(rpc)
		}
	}
	return answer[settlement]{from.message, from.firstSentAt, from.sentAt, from.arrivedAt, from.attempts, from.applied}, err
}
