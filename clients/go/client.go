// A client for producers: adds rows to queues and wakes waiting claims.

package leasebroker

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// clientTimeout is the time for which a call is sent again if its context has no deadline.
const clientTimeout = 60 * time.Second

// Client is a connection for programs that add work. Close it when it is not needed any more.
type Client struct {
	transport *transport
	caller    *caller
	health    *connectionHealth
}

// NewClient makes a client. It connects with the first call. The address is as for NewWorker.
func NewClient(address string, options ...Option) (*Client, error) {
	o, err := newOptions(address, options)
	if err != nil {
		return nil, err
	}
	transport, err := newTransport(o)
	if err != nil {
		return nil, err
	}
	health := newConnectionHealth(o, func(Event) {})
	caller := &caller{token: o.token, onAttempt: health.note, onRetry: func(r retry) {
		o.logger.Debug("retry", "rpc", r.rpc, "code", r.failure.code, "error", r.failure.message, "wait", r.wait)
	}}
	return &Client{transport, caller, health}, nil
}

// Close closes the connection. Calls that run, and later ones, return a *CallError.
func (c *Client) Close() {
	c.caller.closed.Store(true)
	c.transport.close()
}

// EnqueueOption sets an option of the rows of one Enqueue.
type EnqueueOption func(*enqueueOptions)

type enqueueOptions struct {
	delay       time.Duration
	traceParent string
}

// Delay is the time until the rows are ready, up to 366 days. Default: they are ready immediately.
func Delay(delay time.Duration) EnqueueOption { return func(o *enqueueOptions) { o.delay = delay } }

// TraceParent is the W3C trace context that the leases of the rows continue. Default: none.
func TraceParent(text string) EnqueueOption { return func(o *enqueueOptions) { o.traceParent = text } }

// Enqueue adds rows and returns their keys in order. Rows beyond the first 1,000, or beyond 3 MiB, are sent by further
// calls. Each call adds its rows once, even if it is sent again.
//
// If the value of a row cannot be sent, no row is added. If the broker refuses a row, the rows of that call are not added. The keys
// that are returned with the error are those of earlier calls.
func (c *Client) Enqueue(ctx context.Context, queue string, rows []Row, options ...EnqueueOption) ([]string, error) {
	var chosen enqueueOptions
	for _, option := range options {
		option(&chosen)
	}
	items := make([]*pb.NewItem, 0, len(rows))
	for _, row := range rows {
		item, err := newItem(row, chosen.delay, chosen.traceParent)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	defer c.health.beginCall()()
	keys := make([]string, 0, len(rows))
	for len(items) > 0 {
		count, size := 0, 0
		for count < min(len(items), maxItemsPerCall) {
			// A call has at most 65,536 values.
			size += max(proto.Size(items[count]), len(items[count].GetColumns())*(maxGroupBytes/65536))
			if count > 0 && size > maxGroupBytes {
				break
			}
			count++
		}
		request := &pb.EnqueueRequest{Queue: queue, Items: items[:count], RequestId: newRequestID()}
		answer, err := call(ctx, c.caller, "Enqueue", c.transport.client.Enqueue, request, clientCall(ctx))
		if err != nil {
			return keys, afterRows(err, len(keys))
		}
		results := answer.message.GetResults()
		if failure := checkCount(len(results), count); failure != nil {
			return keys, afterRows(failure.error("Enqueue"), len(keys))
		}
		for _, result := range results {
			keys = append(keys, result.GetKey())
		}
		items = items[count:]
	}
	return keys, nil
}

// Wake lets waiting claims look for items now. Call it after rows were added by SQL.
func (c *Client) Wake(ctx context.Context, queue string) error {
	defer c.health.beginCall()()
	_, err := call(ctx, c.caller, "Wake", c.transport.client.Wake, &pb.WakeRequest{Queue: queue}, clientCall(ctx))
	return err
}

// clientCall bounds a call whose context has no deadline.
func clientCall(ctx context.Context) callOptions {
	until, ok := ctx.Deadline()
	if !ok {
		until = time.Now().Add(clientTimeout)
	}
	return callOptions{until: func() time.Time { return until }}
}
