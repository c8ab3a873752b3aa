// How long the settler waits for further endings, so that handlers that end one after the other share a call.

package leasebroker

import "time"

const (
	// gatherTime is the wait. Each slot that has ended is idle for at most this long.
	gatherTime     = time.Millisecond
	minGatherSlots = 8
	// Handlers that are shorter would lose more by the wait than the broker gains.
	minGatherHandler = 10 * gatherTime
)

// gathering knows how long the handlers of a worker take.
type gathering struct {
	slots int
	// mean gives each new handler a weight of one eighth. Zero: no handler has returned.
	mean time.Duration
}

// note notes the time of a handler that has returned.
func (g *gathering) note(taken time.Duration) {
	if g.mean == 0 {
		g.mean = taken
	} else {
		g.mean += (taken - g.mean) / 8
	}
}

// wait returns the time to wait while this number of handlers runs.
func (g *gathering) wait(running int) time.Duration {
	if g.slots >= minGatherSlots && 2*running > g.slots && g.mean >= minGatherHandler {
		return gatherTime
	}
	return 0
}
