// The row that a handler receives, and the result that it can return.

package leasebroker

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// Item is a leased row.
type Item struct {
	// Key is the identity of the row, as the broker writes it.
	Key string
	// Columns has the values of the row's columns. NULL is nil, and present. As in any map, an unknown name has the value
	// nil too. The methods below return an error for it, and for a value of a newer API.
	Columns Row
	// Attempt is the number of this attempt, 1 for the first.
	Attempt int
	// MaxAttempts is the number of attempts after which a failure makes the item dead. 0: no limit.
	MaxAttempts int
	// FencingToken grows with every lease of this row. Systems that you write to can refuse a smaller one.
	FencingToken int64
	// ReadyTime is the time at which the item became ready, by the database's clock. Zero: not known.
	ReadyTime time.Time
	// Checkpoint is what an earlier lease of this item saved last. Nil: nothing, or the queue has no checkpoints.
	Checkpoint []byte
	// TraceParent is the W3C trace context of the lease. Make it the parent of your spans if it is sampled.
	TraceParent string

	lease *heldLease
}

func itemFromProto(lease *pb.Lease) *Item {
	item := &Item{
		Key:          lease.GetItem().GetKey(),
		Columns:      rowFromProto(lease.GetItem().GetColumns()),
		Attempt:      int(lease.GetAttempt()),
		MaxAttempts:  int(lease.GetMaxAttempts()),
		FencingToken: lease.GetFencingToken(),
		Checkpoint:   lease.Checkpoint,
		TraceParent:  lease.GetTraceParent(),
	}
	if lease.ReadyTime != nil {
		item.ReadyTime = lease.ReadyTime.AsTime()
	}
	return item
}

// Int64 returns the value of an integer column. NULL is an error, as are an unknown column and one of another type.
func (i *Item) Int64(column string) (int64, error) { return typedColumn[int64](i, column) }

// Float64 returns the value of a floating-point column.
func (i *Item) Float64(column string) (float64, error) { return typedColumn[float64](i, column) }

// Bool returns the value of a column that is true or false.
func (i *Item) Bool(column string) (bool, error) { return typedColumn[bool](i, column) }

// Text returns the value of a text column.
func (i *Item) Text(column string) (string, error) { return typedColumn[string](i, column) }

// Bytes returns the value of a column of bytes.
func (i *Item) Bytes(column string) ([]byte, error) { return typedColumn[[]byte](i, column) }

// Time returns the value of a column that is a point in time.
func (i *Item) Time(column string) (time.Time, error) { return typedColumn[time.Time](i, column) }

// Decimal returns the value of a column of exact decimal numbers.
func (i *Item) Decimal(column string) (Decimal, error) { return typedColumn[Decimal](i, column) }

// IsNull is true if the column is NULL. An unknown column is an error.
func (i *Item) IsNull(column string) (bool, error) {
	value, err := i.column(column)
	return err == nil && value == nil, err
}

// column returns the value of a column, or an error if it is of a newer API or if the item has no such column.
func (i *Item) column(name string) (any, error) {
	value, ok := i.Columns[name]
	if !ok {
		return nil, fmt.Errorf("no column %q; the item has %s", name, strings.Join(slices.Sorted(maps.Keys(i.Columns)), ", "))
	}
	if err, ok := value.(error); ok {
		return nil, err
	}
	return value, nil
}

// TimeLeft returns the time until the lease ends if no further heartbeat is answered. The item of a test has the longest time.
func (i *Item) TimeLeft() time.Duration {
	return ofLease(i, math.MaxInt64, func(lease *heldLease) time.Duration { return time.Until(lease.deadline) })
}

// IsHeld is false if the lease was lost. Handlers of batches ask it before each item. The item of a test is held.
func (i *Item) IsHeld() bool {
	return ofLease(i, true, func(lease *heldLease) bool { return lease.phase == phaseRunning })
}

// InDoubt is true if no heartbeat was answered for half of the lease.
func (i *Item) InDoubt() bool {
	return ofLease(i, false, func(lease *heldLease) bool { return lease.inDoubt })
}

// ofLease looks at the lease of an item. The item of a test has none, and gets `found`.
func ofLease[T any](item *Item, found T, look func(*heldLease) T) T {
	if item.lease != nil {
		item.lease.state.read(func() { found = look(item.lease) })
	}
	return found
}

// SaveCheckpoint keeps bytes that say how far the work has come. The next heartbeat stores them on the row, or the call
// that fails or releases the item. The next lease of the item has them as Checkpoint. Empty: removes the checkpoint.
//
// If the queue has no checkpoints, or only shorter ones, the worker logs that and goes on without this one.
func (i *Item) SaveCheckpoint(checkpoint []byte) {
	if i.lease != nil {
		i.lease.state.saveCheckpoint(i.lease, checkpoint)
	}
}

// FollowUp is a row that is added to a queue in the transaction that completes an item.
type FollowUp struct {
	// Queue is the name of the queue.
	Queue string
	// Columns has the values of the new row's columns. A column that is left out gets the table's default.
	Columns Row
	// Delay is the time until the row is ready, up to 366 days. 0: it is ready immediately.
	Delay time.Duration
	// TraceParent is the W3C trace context of the row. Empty: that of the completed lease.
	TraceParent string
}

// Result is what a handler adds to the completion of its item.
type Result struct {
	// FollowUps are added together with the completion, or not at all.
	FollowUps []FollowUp
	// Columns are written to the item's own row. The queue's setting `writable` lists the columns that can be written.
	Columns Row
}

func newItem(columns Row, delay time.Duration, traceParent string) (*pb.NewItem, error) {
	values, err := rowToProto(columns)
	if err != nil {
		return nil, err
	}
	if err := checkText("the trace parent", traceParent); err != nil {
		return nil, err
	}
	item := &pb.NewItem{Columns: values, TraceParent: traceParent}
	if delay != 0 {
		item.Delay = delayProto(delay)
	}
	return item, nil
}

func typedColumn[T any](item *Item, column string) (T, error) {
	var zero T
	value, err := item.column(column)
	if err != nil {
		return zero, err
	}
	if value == nil {
		return zero, fmt.Errorf("column %q is NULL", column)
	}
	typed, ok := value.(T)
	if !ok {
		return zero, fmt.Errorf("column %q has a value of type %T, not %T", column, value, zero)
	}
	return typed, nil
}
