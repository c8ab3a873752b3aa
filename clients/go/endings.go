// Endings: how items end, as their handlers said it.

package leasebroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// ending is how an item ends. One of the messages is set.
type ending struct {
	lease      *heldLease
	completion *pb.Completion
	failure    *pb.Failure
	release    *pb.Release
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
	return &ending{lease: lease, completion: message}
}

func failed(lease *heldLease, text string) *ending {
	message := &pb.Failure{LeaseId: lease.id, ErrorMessage: cutText(text)}
	return &ending{lease: lease, failure: message}
}

func released(lease *heldLease, after *time.Duration) *ending {
	message := &pb.Release{LeaseId: lease.id}
	if after != nil {
		message.Delay = delayProto(*after)
	}
	return &ending{lease: lease, release: message}
}

// endingOf returns the ending of an item whose handler has returned an error, or nil. `cause` says why the handler was
// cancelled; empty: it was not.
func endingOf(lease *heldLease, result *Result, err error, cause string, limit time.Duration) *ending {
	var retry *retryError
	var dead *deadLetterError
	var release *releaseError
	switch {
	case err == nil:
		return completed(lease, result)
	case errors.As(err, &release):
		return released(lease, release.after)
	case errors.As(err, &dead):
		ending := failed(lease, errorText(err))
		ending.failure.DeadLetter = true
		return ending
	case errors.As(err, &retry):
		ending := failed(lease, errorText(err))
		if retry.after != nil {
			ending.failure.RetryDelay = delayProto(*retry.after)
		}
		return ending
	case cause == causeShutdown:
		return released(lease, nil)
	case cause == causeTimeLimit && isCancellation(err):
		return failed(lease, timeLimitText(limit))
	default:
		return failed(lease, errorText(err))
	}
}

// dropDelay removes the delay. Returns false if there is none.
func (e *ending) dropDelay() bool {
	switch {
	case e.failure.GetRetryDelay() != nil:
		e.failure.RetryDelay = nil
	case e.release.GetDelay() != nil:
		e.release.Delay = nil
	default:
		return false
	}
	return true
}

// checkpoint returns the checkpoint that the ending carries, or nil.
func (e *ending) checkpoint() []byte {
	if e.failure != nil {
		return e.failure.Checkpoint
	}
	return e.release.GetCheckpoint()
}

// setCheckpoint adds the last checkpoint of the lease. A completion needs none.
func (e *ending) setCheckpoint() {
	switch {
	case e.failure != nil:
		e.failure.Checkpoint = e.lease.checkpoint
	case e.release != nil:
		e.release.Checkpoint = e.lease.checkpoint
	}
}

func (e *ending) followUps() int { return len(e.completion.GetFollowUps()) }

// rpc is the name of the call that settles the item.
func (e *ending) rpc() string {
	switch {
	case e.completion != nil:
		return "Complete"
	case e.failure != nil:
		return "Fail"
	default:
		return "Release"
	}
}

func (e *ending) size() int {
	switch {
	case e.completion != nil:
		return proto.Size(e.completion)
	case e.failure != nil:
		return proto.Size(e.failure)
	default:
		return proto.Size(e.release)
	}
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
