// Whether the broker answers: the events "connected" and "disconnected", and one half of Worker.Health.

package leasebroker

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

type connectionHealth struct {
	emit func(Event)

	mu        sync.Mutex
	connected bool
	// failingSince is the time of the first attempt that failed since the last one that was answered.
	failingSince time.Time
}

// note takes the result of an attempt, nil if it was answered. An error of the broker is an answer, unless it says that
// its database is away.
func (h *connectionHealth) note(failure *failure) {
	answered := failure == nil || failure.reason != "" && failure.code != codes.Unavailable
	h.mu.Lock()
	changed := answered != h.connected
	h.connected = answered
	switch {
	case answered:
		h.failingSince = time.Time{}
	case h.failingSince.IsZero():
		h.failingSince = time.Now()
	}
	h.mu.Unlock()
	switch {
	case changed && answered:
		h.emit(Event{Name: EventConnected})
	case changed:
		h.emit(Event{Name: EventDisconnected, Error: failure.message})
	}
}

// failingFor returns the time for which no call has been answered. 0: the last one was.
func (h *connectionHealth) failingFor() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failingSince.IsZero() {
		return 0
	}
	return time.Since(h.failingSince)
}
