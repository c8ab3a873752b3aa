// The options of workers and clients.

package leasebroker

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// maxItemsPerCall is the largest number of items in a call.
const maxItemsPerCall = 1000

// maxGroups is the largest number of groups that a claim can name.
const maxGroups = 100

// maxWait is the longest time that a claim can wait for items.
const maxWait = 60 * time.Second

// Option sets an option of a worker or a client. A client has only Credentials, Token and Logger.
type Option func(*options)

type options struct {
	addresses   []string
	queue       string
	workerID    string
	concurrency int
	batch       int // the number of items that one handler gets
	lease       time.Duration
	heartbeat   bool
	timeLimit   time.Duration
	wait        time.Duration
	groups      []string
	grace       time.Duration
	stuckAfter  time.Duration
	maxStuck    int
	credentials Security
	token       TokenSource
	onEvent     func(Event)
	middleware  []Middleware
	logger      *slog.Logger
}

// WorkerID names the worker for people who look for the holder of a lease. 1 to 128 UTF-16 units. Default: the host, the
// process id and random digits.
func WorkerID(id string) Option { return func(o *options) { o.workerID = id } }

// Concurrency is the number of handlers that run at the same time. Default: 1.
func Concurrency(handlers int) Option { return func(o *options) { o.concurrency = handlers } }

// Lease is the duration of the leases. Default: the queue's.
func Lease(duration time.Duration) Option { return func(o *options) { o.lease = duration } }

// Heartbeat turns heartbeats on or off. Default: on. Without them the lease is all the time that a handler has: after half
// of it the handler is cancelled with ErrTimeLimit.
func Heartbeat(on bool) Option { return func(o *options) { o.heartbeat = on } }

// TimeLimit is the longest time that a handler may run. It is then cancelled with ErrTimeLimit, and its item fails unless
// the handler returns within 5 s. Default: no limit.
func TimeLimit(limit time.Duration) Option { return func(o *options) { o.timeLimit = limit } }

// Wait is the time that a claim waits for items, up to 60 s. Default: 20 s.
func Wait(duration time.Duration) Option { return func(o *options) { o.wait = duration } }

// Groups are the groups whose items are claimed, up to 100, each in the form of Item.Key. Default: any item is claimed.
func Groups(groups ...string) Option { return func(o *options) { o.groups = groups } }

// Grace is the time that handlers have to end when the worker stops. They are then cancelled with ErrShutdown and have 5 s
// more, and the last settlements another 5 s. Keep the sum below the time that your supervisor waits. Default: 15 s, for the 30 s
// of Kubernetes.
func Grace(duration time.Duration) Option { return func(o *options) { o.grace = duration } }

// StuckAfter is the time after its cancellation at which a handler that still runs is reported as stuck. Default: 30 s.
func StuckAfter(duration time.Duration) Option { return func(o *options) { o.stuckAfter = duration } }

// MaxStuck is the number of stuck handlers that are replaced by another one. If more are stuck, the worker claims no more
// items and is not healthy. Default: as Concurrency.
func MaxStuck(handlers int) Option { return func(o *options) { o.maxStuck = handlers } }

// Credentials protects the connection. Default: Plaintext, for this machine only.
func Credentials(security Security) Option { return func(o *options) { o.credentials = security } }

// Token is the source of a bearer token, which every call carries. Default: none.
func Token(source TokenSource) Option { return func(o *options) { o.token = source } }

// OnEvent is called with every event, in the goroutine in which it happens. It must not block, nor call Stop, which would wait for
// it. Default: none.
func OnEvent(observer func(Event)) Option { return func(o *options) { o.onEvent = observer } }

// Use surrounds the handler with these functions. The first one is the outermost. Default: none.
func Use(middleware ...Middleware) Option {
	return func(o *options) { o.middleware = append(o.middleware, middleware...) }
}

// Logger receives the log. Default: slog.Default.
func Logger(logger *slog.Logger) Option { return func(o *options) { o.logger = logger } }

// newOptions applies the options. `address` is one address, or several with commas between them.
func newOptions(address string, given []Option) (*options, error) {
	o := &options{
		workerID:    defaultWorkerID(),
		concurrency: 1,
		batch:       1,
		heartbeat:   true,
		wait:        20 * time.Second,
		grace:       15 * time.Second,
		stuckAfter:  30 * time.Second,
		logger:      slog.Default(),
	}
	var err error
	if o.addresses, err = readAddresses(address); err != nil {
		return nil, err
	}
	for _, option := range given {
		if option == nil {
			return nil, errors.New("an option is nil")
		}
		option(o)
	}
	if o.logger == nil {
		return nil, errors.New("Logger is nil")
	}
	for _, middleware := range o.middleware {
		if middleware == nil {
			return nil, errors.New("Use has a middleware that is nil")
		}
	}
	return o, o.credentials.check(o.addresses)
}

// checkWorker returns an error for an option of a worker that is out of its range.
func (o *options) checkWorker() error {
	if o.maxStuck == 0 {
		o.maxStuck = o.concurrency
	}
	switch {
	case o.queue == "":
		return fmt.Errorf("the queue is empty; pass its name")
	case o.workerID == "":
		return errors.New("WorkerID is empty")
	case o.concurrency < 1:
		return fmt.Errorf("Concurrency is %d; it must be at least 1", o.concurrency)
	case o.batch < 1 || o.batch > maxItemsPerCall:
		return fmt.Errorf("the batch is %d; it must be 1 to %d", o.batch, maxItemsPerCall)
	case o.maxStuck < 1:
		return fmt.Errorf("MaxStuck is %d; it must be at least 1", o.maxStuck)
	case len(o.groups) > maxGroups:
		return fmt.Errorf("Groups has %d entries; it must have at most %d", len(o.groups), maxGroups)
	case o.lease < 0 || o.timeLimit < 0 || o.wait < 0 || o.grace < 0:
		return fmt.Errorf("a duration is negative")
	case o.wait > maxWait:
		return fmt.Errorf("Wait is %s; it must be at most %s", o.wait, maxWait)
	case o.stuckAfter <= 0:
		return fmt.Errorf("StuckAfter is %s; it must be more than 0", o.stuckAfter)
	}
	return nil
}

// lostReason is the reason of a lease that the worker gives up by itself.
func (o *options) lostReason() string {
	if o.heartbeat {
		return "no heartbeat was answered in time"
	}
	return "the lease has ended"
}

// maxSlotsPerCall is the number of handlers for which one claim can get items.
func (o *options) maxSlotsPerCall() int { return max(maxItemsPerCall/o.batch, 1) }

// pollers is the number of claims that can wait at the same time: as many as it takes to fill all slots.
func (o *options) pollers() int {
	return (o.concurrency + o.maxSlotsPerCall() - 1) / o.maxSlotsPerCall()
}

func defaultWorkerID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	random := make([]byte, 3)
	_, _ = rand.Read(random)
	return fmt.Sprintf("%.90s-%d-%s", host, os.Getpid(), hex.EncodeToString(random))
}
