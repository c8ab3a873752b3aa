// Running handlers: each run has a goroutine while it lasts.

package leasebroker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// Handler works on one item. Its error says how the item ends: see Retry, DeadLetter and Release. Without an error the item
// is completed with the result, which can be nil.
type Handler func(ctx context.Context, item *Item) (*Result, error)

// BatchHandler works on up to a batch of items. Without an error all are completed, with the results of the map, which can
// be nil. A BatchError fails some items. A key that is no item of the batch fails all of them. Any other error ends all items as it would
// end one.
type BatchHandler func(ctx context.Context, items []*Item) (map[*Item]*Result, error)

// Middleware surrounds handlers: it returns a handler that does something before and after it calls `next`. A worker that was made by
// NewWorker calls it with one item.
type Middleware func(next BatchHandler) BatchHandler

// inBatches makes a handler of one item a handler of batches.
func (h Handler) inBatches() BatchHandler {
	if h == nil {
		return nil
	}
	return func(ctx context.Context, items []*Item) (map[*Item]*Result, error) {
		result, err := h(ctx, items[0])
		if result == nil {
			return nil, err
		}
		return map[*Item]*Result{items[0]: result}, err
	}
}

// runners starts the handlers of a worker. Their goroutines are used again, because the stack of a new one must grow first.
type runners struct {
	state   *state
	handler BatchHandler
	// next passes a run to a goroutine that waits for one.
	next chan *run
	// stopped is closed when there will be no further run.
	stopped <-chan struct{}
}

func (r *runners) start(run *run) {
	select {
	case r.next <- run:
	default:
		go r.work(run)
	}
}

func (r *runners) work(run *run) {
	for {
		runHandler(r.state, r.handler, run)
		select {
		case run = <-r.next:
		case <-r.stopped:
			return
		}
	}
}

// errGoexit stays if a function of the program, or a method of its error, ends the goroutine.
var errGoexit = errors.New("runtime.Goexit was called")

// errStranger fails all items of a batch whose handler has named something else. Otherwise the item that it meant would be completed.
var errStranger = errors.New("the handler named something that is no item of the batch: use the pointers that it was called with")

// runHandler runs the handler of a run and passes the endings of its items to the state.
func runHandler(state *state, handler BatchHandler, run *run) {
	var results map[*Item]*Result
	err := errGoexit
	defer func() {
		endings := make([]*ending, len(run.leases))
		for i, lease := range run.leases {
			endings[i] = failed(lease, errorText(errGoexit))
		}
		defer func() {
			logFailures(state, endings)
			state.update(func() { state.end(run, endings) })
			run.cancel(nil)
		}()
		if value := recover(); value != nil {
			logPanic(state, run.leases[0], value)
			err = &panicError{value}
		}
		endings = endingsOf(state, run, results, err)
	}()
	results, err = handler(run.ctx, run.items())
}

// logFailures logs the errors of handlers. The broker stores them too, but only the last one of each item.
func logFailures(state *state, endings []*ending) {
	for _, ending := range endings {
		if ending.rpc == rpcFail {
			state.options.logger.Warn("handler failed", "queue", state.options.queue, "key", ending.lease.item.Key,
				"attempt", ending.lease.item.Attempt, "error", ending.text)
		}
	}
}

func logPanic(state *state, lease *heldLease, value any) {
	state.options.logger.Error("handler panicked", "queue", state.options.queue, "key", lease.item.Key,
		"panic", value, "stack", string(debug.Stack()))
}

// endingsOf returns the endings of the items of a run.
func endingsOf(state *state, run *run, results map[*Item]*Result, err error) []*ending {
	state.mu.Lock()
	cause := run.cause
	state.mu.Unlock()
	if namesStranger(run, results, err) {
		results, err = nil, errStranger
	}
	endings := make([]*ending, len(run.leases))
	for i, lease := range run.leases {
		endings[i] = endingIn(state, lease, results, err, cause)
	}
	return endings
}

// namesStranger is true if the results or the BatchError of a handler have a key that is no item of the run.
func namesStranger(run *run, results map[*Item]*Result, err error) bool {
	defer func() { _ = recover() }() // A method of the error panics: endingIn fails the items.
	failures := BatchError(nil)
	if err != nil && !errors.As(err, &failures) {
		return false
	}
	strangers := len(results) + len(failures)
	for _, item := range run.items() {
		if _, named := results[item]; named {
			strangers--
		}
		if _, named := failures[item]; named {
			strangers--
		}
	}
	return strangers > 0
}

// endingIn returns the ending of one item of a run. The methods of the handler's error can panic too. Then only this item fails.
func endingIn(state *state, lease *heldLease, results map[*Item]*Result, err error, cause string) (ending *ending) {
	defer func() {
		if value := recover(); value != nil {
			logPanic(state, lease, value)
			ending = failed(lease, fmt.Sprintf("panic: %v", value))
		}
	}()
	if batch := BatchError(nil); errors.As(err, &batch) {
		err = batch[lease.item]
	}
	return endingOf(lease, results[lease.item], err, cause, state.options.timeLimit)
}
