// Events, which a worker reports to its observer, and the counters of them.

package leasebroker

import (
	"log/slog"
	"maps"
	"sync"
	"time"
)

// EventName is the name of an event.
type EventName string

// The events of a worker.
const (
	EventClaimed         EventName = "claimed"          // a lease has arrived
	EventStarted         EventName = "started"          // its handler is about to run
	EventCompleted       EventName = "completed"        // the broker has completed the item
	EventFailed          EventName = "failed"           // the broker has noted the failure
	EventReleased        EventName = "released"         // the item was given back
	EventLost            EventName = "lost"             // the lease was lost
	EventRefused         EventName = "refused"          // the broker cannot apply the settlement
	EventUnknown         EventName = "unknown"          // no answer has said whether the item was settled
	EventHeartbeat       EventName = "heartbeat"        // leases were extended by one call
	EventHeartbeatMissed EventName = "heartbeat_missed" // no heartbeat was answered for half of the lease
	EventCancelled       EventName = "cancelled"        // the handler is about to be cancelled
	EventStuck           EventName = "stuck"            // the handler did not stop after it was cancelled
	EventRetry           EventName = "retry"            // a request is about to be sent again
	EventConnected       EventName = "connected"        // a call was answered, after none was
	EventDisconnected    EventName = "disconnected"     // a call was not answered, after one was
	EventStopping        EventName = "stopping"         // the worker begins to stop
	EventStopped         EventName = "stopped"          // the worker has stopped
)

// Event is a change in a worker. Fields that do not apply to it are zero.
type Event struct {
	// Name says what has happened.
	Name EventName
	// Queue is the worker's queue.
	Queue string
	// Item is the item that the event is about.
	Item *Item
	// Cause of "cancelled" and "stuck": "lease_lost", "time_limit" or "shutdown".
	Cause string
	// Reason of "lost" and "cancelled": why the lease was lost, if that is known. Of "refused": the broker's text. Of "retry":
	// the broker's reason.
	Reason string
	// Error is the text of "failed", "unknown", "retry" and "disconnected".
	Error string
	// Count of "heartbeat" is the number of leases that were extended.
	Count int
	// Stack of "stuck" has the stacks of all goroutines.
	Stack string
	// RPC, Code, Try and Wait of "retry": the method, the status, the number of the attempt that failed, and the time until
	// the next.
	RPC  string
	Code string
	Try  int
	Wait time.Duration
}

// eventLog counts events and calls the observer. An observer that panics is logged once and not called again.
type eventLog struct {
	queue  string
	logger *slog.Logger

	mu       sync.Mutex
	observer func(Event)
	counters map[EventName]int64
}

func newEventLog(queue string, observer func(Event), logger *slog.Logger) *eventLog {
	return &eventLog{queue: queue, logger: logger, observer: observer, counters: map[EventName]int64{}}
}

// emit must be called without the worker's lock: the observer may ask for the worker's health.
func (l *eventLog) emit(event Event) {
	l.mu.Lock()
	l.counters[event.Name]++
	observer := l.observer
	l.mu.Unlock()
	if observer == nil {
		return
	}
	event.Queue = l.queue
	defer func() {
		if text := recover(); text != nil {
			l.mu.Lock()
			l.observer = nil
			l.mu.Unlock()
			l.logger.Error("observer panicked and is not called again", "panic", text)
		}
	}()
	observer(event)
}

func (l *eventLog) counts() map[EventName]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.counters)
}
