// Notices that a proxy on the way to the broker refuses a settlement. Heartbeats keep its leases, so no deadline would end it.

package leasebroker

import (
	"regexp"
	"time"

	"google.golang.org/grpc/codes"
)

// wayPatience is the time for which a settlement is sent again that the way to the broker refuses.
const wayPatience = 10 * time.Second

// isStatus413 fits the text of gRPC for an answer with the HTTP status 413, Content Too Large.
var isStatus413 = regexp.MustCompile(`HTTP status code\D*413\b`)

// way judges the attempts of a settlement.
type way struct {
	state *state
	group []*ending
	// retriedAt is the moment of the last retry. A heartbeat follows each.
	retriedAt time.Time
	// refusingSince is the moment of the first refusal since the broker has answered heartbeats. Zero: there was none.
	refusingSince time.Time
	// refuses is true if the settlement is not worth another attempt.
	refuses bool
}

// of returns the judge of a part of the group. It has no patience of its own: the group was sent for long enough.
func (w *way) of(part []*ending) *way {
	// No heartbeat was sent since the last attempt of the group.
	return &way{state: w.state, group: part, retriedAt: w.refusingSince, refusingSince: w.refusingSince}
}

// note takes the failure of an attempt. It returns true if the settlement is not worth another one.
func (w *way) note(failure *failure) bool {
	w.state.mu.Lock()
	defer w.state.mu.Unlock()
	now := w.state.now()
	switch {
	case !failure.isOfTheWay() || !w.isOpen():
		w.refusingSince = time.Time{}
	case w.refusingSince.IsZero():
		w.refusingSince = now
	default:
		w.refuses = now.Sub(w.refusingSince) >= wayPatience
	}
	w.retriedAt = now
	return w.refuses
}

// isOpen is true if the broker has answered a heartbeat that was sent after the last retry.
func (w *way) isOpen() bool {
	for _, ending := range w.group {
		if !w.retriedAt.IsZero() && !ending.lease.lastAnswer.Before(w.retriedAt) {
			return true
		}
	}
	return false
}

// isOfTheWay is true for an error of something between this program and the broker that does answer.
func (f *failure) isOfTheWay() bool {
	return f.reason == "" && f.pushback == nil &&
		(f.code == codes.Unknown || f.code == codes.Internal || f.code == codes.Canceled)
}

// readContentTooLarge gives the HTTP status 413 of a proxy the code that gRPC has for a request that is too large. The broker never
// has the whole request.
func (f *failure) readContentTooLarge() {
	if f.code == codes.Unknown && f.reason == "" && isStatus413.MatchString(f.message) {
		f.code, f.applied = codes.ResourceExhausted, appliedNo
	}
}
