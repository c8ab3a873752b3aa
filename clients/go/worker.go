// A worker: claims the items of one queue, runs a handler for each, and settles them.

package leasebroker

import (
	"context"
	"errors"
	"math"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// cancelGrace is the time that a cancelled handler has to return when the worker stops.
	cancelGrace = 5 * time.Second
	// settleGrace is the time that the last settling calls have after that.
	settleGrace = 5 * time.Second
)

// Worker works on the items of one queue. Make it with NewWorker or NewBatchWorker, and use it once.
type Worker struct {
	options *options
	handler BatchHandler
	events  *eventLog
	state   *state
	health  *connectionHealth

	connection            *Connection
	poller                *poller
	polls, settles, keeps routine

	// stopping is closed when the worker shall stop, hurry when handlers shall be cancelled at once, and stopped when it
	// has stopped.
	stopping, hurry, stopped chan struct{}
	stopOnce, hurryOnce      sync.Once
	stopInOrder              sync.Once

	mu      sync.Mutex // Guards the fields below.
	started bool
	err     error
}

// routine is a group of goroutines that share a context.
type routine struct {
	group  sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc
}

func (r *routine) start(run func(context.Context)) {
	if r.ctx == nil {
		r.ctx, r.cancel = context.WithCancel(context.Background())
	}
	r.group.Go(func() { run(r.ctx) })
}

// wait waits until all of them have ended, or until a moment: an observer that does not return keeps them.
func (r *routine) wait(until time.Time) {
	ended := make(chan struct{})
	go func() {
		r.group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(time.Until(until)):
	}
}

// NewWorker makes a worker that calls the handler with one item. It connects when it starts.
//
// The address is host:port, dns:///host:port, or several addresses with commas between them.
func NewWorker(address, queue string, handler Handler, options ...Option) (*Worker, error) {
	return (&Connection{address: address, given: options}).NewWorker(queue, handler)
}

// NewBatchWorker makes a worker that calls the handler with up to `batch` items, 1 to 1,000. Concurrency is then the number
// of batches.
func NewBatchWorker(address, queue string, batch int, handler BatchHandler, options ...Option) (*Worker, error) {
	return (&Connection{address: address, given: options}).NewBatchWorker(queue, batch, handler)
}

func newWorker(connection *Connection, queue string, batch int, handler BatchHandler, given []Option) (*Worker, error) {
	o, err := newOptions(connection.address, slices.Concat(connection.given, given))
	if err != nil {
		return nil, err
	}
	o.queue, o.batch = queue, batch
	if err := o.checkWorker(); err != nil {
		return nil, err
	}
	if handler == nil {
		return nil, errors.New("the handler is nil")
	}
	for _, surround := range slices.Backward(o.middleware) {
		handler = surround(handler)
	}
	events := newEventLog(queue, o.onEvent, o.logger)
	w := &Worker{
		options: o, handler: handler, events: events, connection: connection,
		state: newState(o, events), health: newConnectionHealth(o, events.emit),
		stopping: make(chan struct{}), hurry: make(chan struct{}), stopped: make(chan struct{}),
	}
	runners := &runners{state: w.state, handler: handler, next: make(chan *run), stopped: w.stopped}
	w.state.handle = runners.start
	return w, nil
}

// Run works until the context ends or SIGTERM or an interrupt arrives, and stops in order. A second signal cancels the
// handlers. It returns nil, a *CallError if the broker refuses the worker, for example because the queue does not exist, or
// ErrHandlersLeft.
func (w *Worker) Run(ctx context.Context) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	w.state.base = context.WithoutCancel(ctx)
	if err := w.Start(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-signals:
	case <-w.stopping:
	}
	w.beginStop(w.options.grace)
	go func() {
		select {
		case <-signals:
			w.hurryUp()
		case <-w.stopped:
		}
	}()
	return w.waitUntilStopped()
}

// Start starts the worker and returns. For programs that handle signals themselves. It does nothing if the worker was
// stopped first. It fails if the worker was started before, or if the credentials cannot be read.
func (w *Worker) Start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return errors.New("the worker was started before; make another one")
	}
	select {
	case <-w.stopping:
		return nil
	default:
	}
	calls, keep, err := w.connection.open()
	if err != nil {
		return err
	}
	w.started = true
	caller := &caller{token: w.options.token, onAttempt: w.health.note, onRetry: w.onRetry}
	w.poller = &poller{w.state, caller, w.health, calls, w.onFatal}
	settler := &settler{w.state, caller, calls, w.onFatal}
	keeper := &keeper{state: w.state, caller: caller, transport: keep, onFatal: w.onFatal}
	w.health.start()
	w.settles.start(settler.run)
	w.keeps.start(keeper.run)
	for range w.options.pollers() {
		w.polls.start(w.poller.run)
	}
	return nil
}

// Stop stops in order: it claims no more items, lets handlers end within the grace, cancels the others, and settles all.
// It returns what Run returns. If the worker stops already, handlers are cancelled when the grace of this call or of the first one
// ends. Do not call it in a handler, because it waits for the handler: RequestStop is for that.
func (w *Worker) Stop(grace time.Duration) error {
	if !w.beginStop(grace) {
		defer time.AfterFunc(grace, w.hurryUp).Stop()
	}
	return w.waitUntilStopped()
}

// RequestStop begins to stop as Stop does, and returns immediately. It is for handlers and observers, for which Stop would wait. Run
// waits for the end, and so does a later Stop. If the worker stops already, handlers are cancelled immediately.
func (w *Worker) RequestStop(grace time.Duration) {
	if !w.beginStop(grace) {
		w.hurryUp()
	}
}

// beginStop returns false if the worker stops already.
func (w *Worker) beginStop(grace time.Duration) (isFirst bool) {
	// The time for cancelled handlers and settlements is added to it.
	grace = min(max(grace, 0), math.MaxInt64-cancelGrace-settleGrace)
	w.stopInOrder.Do(func() {
		isFirst = true
		w.markStopping()
		go func() {
			defer close(w.stopped)
			if w.isStarted() {
				w.stop(grace)
			}
		}()
	})
	return isFirst
}

func (w *Worker) waitUntilStopped() error {
	<-w.stopped
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *Worker) hurryUp() { w.hurryOnce.Do(func() { close(w.hurry) }) }

// Done is closed when the worker is to stop: Stop or RequestStop was called, or the broker has refused the worker. Call Stop then. It
// waits for the handlers, closes the connections and returns the error.
func (w *Worker) Done() <-chan struct{} { return w.stopping }

// Health is false if no call was answered for the time of a lease, if too many handlers are stuck, or if the broker has
// refused the worker.
func (w *Worker) Health() bool {
	w.mu.Lock()
	refused := w.err != nil
	w.mu.Unlock()
	w.state.mu.Lock()
	lease := w.state.lastDuration
	stuck := w.state.stuck > w.options.maxStuck
	w.state.mu.Unlock()
	return !refused && !stuck && w.health.failingFor() <= lease
}

// Counters returns how often each event has happened.
func (w *Worker) Counters() map[EventName]int64 { return w.events.counts() }

func (w *Worker) stop(grace time.Duration) {
	w.events.emit(Event{Name: EventStopping})
	w.state.update(func() {
		w.state.takesItems = false
		w.state.slotsFree.Broadcast()
	})
	limit := grace + cancelGrace + settleGrace
	// A second more, in which settlements that are given up are reported.
	until := time.Now().Add(limit).Add(time.Second)
	settleEnd := time.AfterFunc(limit, func() { w.settles.cancel() })
	defer settleEnd.Stop()
	w.polls.cancel()
	w.polls.wait(until)
	released := make(chan struct{})
	go func() {
		defer close(released)
		w.poller.releaseAbandoned(context.Background(), false)
	}()
	w.waitForHandlers(grace, w.hurry)
	w.state.update(w.state.cancelHandlers)
	w.waitForHandlers(cancelGrace, nil)
	w.state.update(func() {
		if w.state.leaveHandlers() {
			w.setError(ErrHandlersLeft)
		}
		w.state.settledAll = true
		w.state.endingsReady.Signal()
	})
	w.settles.wait(until)
	w.keeps.cancel()
	w.keeps.wait(until)
	<-released
	// Settlements that no broker has answered leave no time.
	w.poller.releaseAbandoned(w.settles.ctx, true)
	w.settles.cancel()
	w.health.close()
	w.connection.close()
	w.events.emit(Event{Name: EventStopped})
}

func (w *Worker) isStarted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started
}

// waitForHandlers waits until all handlers have returned, the time is over, or `hurry` is closed.
func (w *Worker) waitForHandlers(limit time.Duration, hurry <-chan struct{}) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		w.state.mu.Lock()
		running := len(w.state.runs)
		w.state.mu.Unlock()
		if running == 0 {
			return
		}
		select {
		case <-w.state.changed:
		case <-hurry:
			return
		case <-timer.C:
			return
		}
	}
}

func (w *Worker) markStopping() { w.stopOnce.Do(func() { close(w.stopping) }) }

// onFatal ends the worker, because the broker refuses its calls.
func (w *Worker) onFatal(err error) {
	w.setError(err)
	w.options.logger.Error("worker stops", "queue", w.options.queue, "error", err)
	w.markStopping()
}

// setError keeps the first error.
func (w *Worker) setError(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

func (w *Worker) onRetry(r retry) {
	w.events.emit(Event{
		Name: EventRetry, RPC: r.rpc, Code: r.failure.code.String(), Reason: r.failure.reason,
		Error: r.failure.message, Try: r.attempt, Wait: r.wait,
	})
}
