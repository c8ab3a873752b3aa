// Connections that several workers share.

package leasebroker

import (
	"context"
	"errors"
	"sync"
)

// Connection is a connection to the brokers that several workers share, each with a queue of its own. It is open while one of them
// works. Heartbeats have a second one, so that neither a large response nor a waiting claim delays them.
type Connection struct {
	address string
	given   []Option

	mu          sync.Mutex
	users       int
	calls, keep *transport
}

// Connect makes a connection. It connects when the first worker starts. The address is as for NewWorker. The options are defaults for
// the workers, except that all of them have its Credentials.
func Connect(address string, options ...Option) (*Connection, error) {
	_, err := newOptions(address, options)
	return &Connection{address: address, given: options}, err
}

// NewWorker is as the function NewWorker, over this connection.
func (c *Connection) NewWorker(queue string, handler Handler, options ...Option) (*Worker, error) {
	return newWorker(c, queue, 1, handler.inBatches(), options)
}

// NewBatchWorker is as the function NewBatchWorker, over this connection.
func (c *Connection) NewBatchWorker(queue string, batch int, handler BatchHandler, options ...Option) (*Worker, error) {
	return newWorker(c, queue, batch, handler, options)
}

// open returns the connection for calls and the one for heartbeats. Each worker closes them once.
func (c *Connection) open() (calls, keep *transport, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users == 0 {
		o, err := newOptions(c.address, c.given)
		if err != nil {
			return nil, nil, err
		}
		if c.calls, err = newTransport(o); err != nil {
			return nil, nil, err
		}
		if c.keep, err = newTransport(o); err != nil {
			c.calls.close()
			return nil, nil, err
		}
		c.keep.connection.Connect() // The first heartbeat must not wait for it.
	}
	c.users++
	return c.calls, c.keep, nil
}

func (c *Connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users == 0 {
		c.calls.close()
		c.keep.close()
	}
}

// RunAll runs workers as Worker.Run does, until all have stopped. If one of them ends with an error, the others stop in order.
func RunAll(ctx context.Context, workers ...*Worker) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(workers))
	var running sync.WaitGroup
	for i, worker := range workers {
		running.Go(func() {
			if errs[i] = worker.Run(ctx); errs[i] != nil {
				stop()
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}
