// The poller: claims items for free slots by calls that wait for items.

package leasebroker

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

const (
	// maxStartDelay spreads the first claims of workers that start together.
	maxStartDelay = 250 * time.Millisecond
	// earlyAnswerPause follows an empty response of a broker that stops, and one that came early.
	earlyAnswerPause = 100 * time.Millisecond
	// longestPause is the longest pause before the next claim that a broker can ask for. Limits of a queue can change.
	longestPause = time.Minute
	// releaseTimeout bounds the release of abandoned claims.
	releaseTimeout = 2 * time.Second
	// maxResponseBytes lets the broker's own limits decide how large a response is.
	maxResponseBytes = 1 << 30
)

type poller struct {
	state     *state
	caller    *caller
	health    *connectionHealth
	transport *transport
	onFatal   func(error)
}

// run claims until the context ends, the worker stops, or the broker refuses the claim.
func (p *poller) run(ctx context.Context) {
	if !sleep(ctx, time.Duration(rand.Int64N(int64(maxStartDelay)))) {
		return
	}
	for {
		slots := p.waitForSlots()
		if slots == 0 {
			return
		}
		if err := p.claim(ctx, slots); err != nil {
			if ctx.Err() == nil {
				p.onFatal(err)
			}
			return
		}
	}
}

// waitForSlots waits until a claim is useful. Returns 0 if the worker stops.
func (p *poller) waitForSlots() int {
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	for p.state.takesItems {
		if p.state.mayClaim() {
			if slots := p.state.reserveSlots(); slots > 0 {
				return slots
			}
		}
		p.state.slotsFree.Wait()
	}
	return 0
}

func (p *poller) claim(ctx context.Context, slots int) error {
	p.releaseAbandoned(ctx, true)
	options := p.state.options
	wait := options.wait
	if !p.health.answers() {
		// Without an answer before, a claim that waits for items looks like a broker that does not answer.
		wait = 0
	}
	request := &pb.ClaimBatchRequest{
		Queue:       options.queue,
		WorkerId:    options.workerID,
		MaxItems:    int32(slots * options.batch),
		WaitTimeout: durationpb.New(wait),
		RequestId:   newRequestID(),
		MaxBytes:    maxResponseBytes,
		Groups:      options.groups,
	}
	if options.lease > 0 {
		request.LeaseDuration = durationpb.New(options.lease)
	}
	begun := time.Now()
	answer, err := call(ctx, p.caller, "ClaimBatch", p.transport.client.ClaimBatch, request,
		callOptions{attemptTimeout: wait + 5*time.Second, onRetry: func() { request.WaitTimeout = nil }})
	p.state.update(func() {
		if err != nil && answer.applied != appliedNo {
			p.state.abandoned = append(p.state.abandoned, request.RequestId)
		}
		p.state.accept(answer.message.GetLeases(), slots, answer.sentAt, answer.arrivedAt)
	})
	if err != nil {
		return err
	}
	stops := answer.message.GetHeldBack() == pb.HeldBack_HELD_BACK_STOPPING
	if after := answer.message.GetRetryAfter(); after != nil && len(answer.message.GetLeases()) == 0 {
		// A limit of the queue gives no item before.
		sleep(ctx, min(after.AsDuration(), longestPause))
	} else if stops || len(answer.message.GetLeases()) == 0 && (time.Since(begun) < wait/2 || options.wait < earlyAnswerPause) {
		sleep(ctx, earlyAnswerPause/2+time.Duration(rand.Int64N(int64(earlyAnswerPause))))
	}
	return nil
}

// releaseAbandoned releases the items of claims whose response was not read. A worker that stops calls it twice: the first
// request may reach one broker before another has run the claim. Several pollers can call it at the same time, with the same claims.
func (p *poller) releaseAbandoned(ctx context.Context, forget bool) {
	p.state.mu.Lock()
	ids := slices.Clone(p.state.abandoned)
	p.state.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	request := &pb.ReleaseClaimsRequest{Queue: p.state.options.queue, WorkerId: p.state.options.workerID, RequestIds: ids}
	until := time.Now().Add(releaseTimeout)
	_, err := call(ctx, p.caller, "ReleaseClaims", p.transport.client.ReleaseClaims, request,
		callOptions{until: func() time.Time { return until }})
	var refused *CallError
	isRefused := errors.As(err, &refused) && !refused.Temporary
	if err != nil && (forget || isRefused) {
		p.state.options.logger.Warn("items of abandoned claims may stay leased until they expire", "queue", p.state.options.queue, "error", err)
	}
	if err == nil && forget || isRefused {
		isReleased := func(id string) bool { return slices.Contains(ids, id) }
		p.state.update(func() { p.state.abandoned = slices.DeleteFunc(p.state.abandoned, isReleased) })
	}
}
