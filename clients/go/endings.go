// Endings: how items end, as their handlers said it.

package leasebroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// The names of the calls that settle an item.
const (
	rpcComplete = "Complete"
	rpcFail     = "Fail"
	rpcRelease  = "Release"
)

// ending is how an item ends. The completion is set for rpcComplete, the text for rpcFail.
type ending struct {
	lease      *heldLease
	rpc        string
	completion *pb.Completion
	text       string
	dead       bool
	delay      *durationpb.Duration
	checkpoint []byte
	// tries counts the refusals because of a lock on the row. After one it is sent again from sendAt on.
	tries  int
	sendAt time.Time
}

func completed(lease *heldLease, result *Result) *ending {
	message := &pb.Completion{LeaseId: lease.id}
	if result != nil {
		columns, err := rowToProto(result.Columns)
		if err != nil {
			return failed(lease, "Result: "+err.Error())
		}
		message.Columns = columns
		for i, followUp := range result.FollowUps {
			item, err := newItem(followUp.Columns, followUp.Delay, followUp.TraceParent)
			if err = errors.Join(err, checkText("the queue", followUp.Queue)); err != nil {
				return failed(lease, fmt.Sprintf("FollowUp %d: %s", i, err))
			}
			message.FollowUps = append(message.FollowUps, &pb.FollowUp{Queue: followUp.Queue, Item: item})
		}
	}
	return &ending{lease: lease, rpc: rpcComplete, completion: message}
}

func failed(lease *heldLease, text string) *ending {
	return &ending{lease: lease, rpc: rpcFail, text: cutText(text)}
}

func released(lease *heldLease, after *time.Duration) *ending {
	return &ending{lease: lease, rpc: rpcRelease, delay: optionalDelay(after)}
}

// endingOf returns the ending of an item whose handler has returned an error, or nil. `cause` says why the handler was
// cancelled; empty: it was not.
func endingOf(lease *heldLease, result *Result, err error, cause string, limit time.Duration) *ending {
	var decided decision
	errors.As(err, &decided)
	switch decided := decided.(type) {
	case *releaseError:
		return released(lease, decided.after)
	case *deadLetterError:
		ending := failed(lease, errorText(err))
		ending.dead = true
		return ending
	case *retryError:
		ending := failed(lease, errorText(err))
		ending.delay = optionalDelay(decided.after)
		return ending
	}
	switch {
	case err == nil:
		return completed(lease, result)
	case cause == causeShutdown:
		return released(lease, nil)
	case cause == causeTimeLimit && isCancellation(err):
		return failed(lease, timeLimitText(limit))
	default:
		return failed(lease, errorText(err))
	}
}

func (e *ending) followUps() int { return len(e.completion.GetFollowUps()) }

// size is the approximate number of bytes that the ending takes in a request.
func (e *ending) size() int {
	return proto.Size(e.completion) + len(e.lease.id) + len(e.text) + len(e.checkpoint) + 32
}

func isCancellation(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrTimeLimit)
}

func timeLimitText(limit time.Duration) string {
	if limit == 0 {
		return "time limit of half of the lease"
	}
	return fmt.Sprintf("time limit of %g s", limit.Seconds())
}
