// The health of the calls to the broker: the events "connected" and "disconnected", the warnings of workers and clients while no call
// is answered, and one half of Worker.Health.

package leasebroker

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

// firstWarning is the time without an answer before the first warning. nextWarning is the time between two warnings.
const (
	firstWarning = 2 * time.Second
	nextWarning  = 30 * time.Second
)

type connectionHealth struct {
	emit    func(Event)
	address string
	logger  *slog.Logger
	// firstWarning and nextWarning are the constants, except in a test.
	firstWarning, nextWarning time.Duration

	mu        sync.Mutex
	connected bool
	// failingSince is the time since which no call was answered. Zero: the last call was answered.
	failingSince time.Time
	cause        string
	// warnedAt is the time of the last warning of this outage. Zero: there was none.
	warnedAt time.Time
	timer    *time.Timer
	// calls is the number of calls of a client that run. Without any it does not warn.
	calls int
}

func newConnectionHealth(o *options, emit func(Event)) *connectionHealth {
	return &connectionHealth{
		emit: emit, address: strings.Join(o.addresses, ", "), logger: o.logger,
		firstWarning: firstWarning, nextWarning: nextWarning,
	}
}

// start expects the first answer from now on. The first attempt can take long to fail.
func (h *connectionHealth) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begin("no answer yet")
}

// note takes the result of an attempt, nil if it was answered. An error of the broker is an answer, unless it says that
// its database is away.
func (h *connectionHealth) note(failure *failure) {
	answered := failure == nil || failure.reason != "" && failure.code != codes.Unavailable
	h.mu.Lock()
	changed := answered != h.connected
	h.connected = answered
	failingFor, hasWarned := h.failingForLocked(), !h.warnedAt.IsZero()
	if answered {
		h.stopTimer()
		h.failingSince, h.warnedAt = time.Time{}, time.Time{}
	} else {
		h.begin(failure.text())
	}
	h.mu.Unlock()
	if answered && hasWarned {
		// A warning too: a log that shows the problem also shows its end.
		h.logger.Warn("broker answers again", "address", h.address, "after", failingFor.Round(time.Second))
	}
	switch {
	case changed && answered:
		h.emit(Event{Name: EventConnected})
	case changed:
		h.emit(Event{Name: EventDisconnected, Error: failure.message})
	}
}

// answers is true if the last call was answered.
func (h *connectionHealth) answers() bool { return h.failingFor() == 0 }

// failingFor returns the time for which no call has been answered. 0: the last one was.
func (h *connectionHealth) failingFor() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failingForLocked()
}

// close ends the warnings.
func (h *connectionHealth) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopTimer()
}

// beginCall notes a call of a client. Returns the function that notes its end.
func (h *connectionHealth) beginCall() (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	if !h.failingSince.IsZero() && h.timer == nil {
		h.warnAfter(max(h.firstWarning, time.Until(h.warnedAt.Add(h.nextWarning))))
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.calls--; h.calls == 0 {
			h.stopTimer()
		}
	}
}

func (h *connectionHealth) failingForLocked() time.Duration {
	if h.failingSince.IsZero() {
		return 0
	}
	return max(time.Since(h.failingSince), 1)
}

func (h *connectionHealth) begin(cause string) {
	h.cause = cause
	if h.failingSince.IsZero() {
		h.failingSince = time.Now()
		h.warnAfter(h.firstWarning)
	}
}

func (h *connectionHealth) warnAfter(wait time.Duration) {
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		h.mu.Lock()
		// An answer may have come while this waited for the lock.
		if h.timer != timer {
			h.mu.Unlock()
			return
		}
		h.warnedAt = time.Now()
		failingFor, cause := h.failingForLocked(), h.cause
		h.warnAfter(h.nextWarning)
		h.mu.Unlock()
		h.logger.Warn("calls to the broker fail", "address", h.address, "for", failingFor.Round(time.Second), "cause", cause)
	})
	h.timer = timer
}

func (h *connectionHealth) stopTimer() {
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
}
