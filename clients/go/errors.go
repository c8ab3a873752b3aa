// Errors of calls, causes of cancellation, and the errors by which a handler says how its item ends.

package leasebroker

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The causes for which a handler is cancelled. context.Cause of the handler's context is or wraps one of them.
var (
	// ErrLeaseLost says that another worker may have the item. Nothing is sent for it any more.
	ErrLeaseLost = errors.New("the lease was lost")
	// ErrTimeLimit says that the handler has run for longer than the option TimeLimit, or, without heartbeats, for half of
	// the lease.
	ErrTimeLimit = errors.New("the time limit has passed")
	// ErrShutdown says that the worker stops and that its grace has passed.
	ErrShutdown = errors.New("the worker stops")
)

// ErrHandlersLeft is returned by Stop and Run if handlers did not return after they were cancelled.
var ErrHandlersLeft = errors.New("handlers are still running")

// CallError is the error of a call that was not, or no longer, sent again. It wraps context.Canceled or context.DeadlineExceeded if the
// context, or the time for the call, has ended.
type CallError struct {
	// RPC is the name of the method, such as "ClaimBatch".
	RPC string
	// Code is the status of the last attempt.
	Code codes.Code
	// Reason is the broker's reason, such as "QUEUE_NOT_FOUND". Empty: the error does not come from the broker.
	Reason string
	// Message is the text of the status.
	Message string
	// Fields are the paths of the request's fields that the broker refused.
	Fields []string
	// Applied is "no" if the call has changed nothing and will change nothing, and "unknown" if it may have been applied. It is
	// "partly" if Enqueue has added the rows whose keys it returns, and will not add the others.
	Applied string
	// Temporary is true if the same call can succeed later: only the time for retries is over.
	Temporary bool

	cause error
}

func (e *CallError) Error() string {
	return e.RPC + ": " + (&failure{code: e.Code, reason: e.Reason, message: e.Message}).text()
}

func (e *CallError) Unwrap() error { return e.cause }

// GRPCStatus returns the code and the message, for status.Code and status.FromError.
func (e *CallError) GRPCStatus() *status.Status { return status.New(e.Code, e.Message) }

// afterRows makes the error of a call that of an Enqueue whose earlier calls have added rows.
func afterRows(err error, rows int) error {
	var failed *CallError
	if rows == 0 || !errors.As(err, &failed) {
		return err
	}
	failed.Message = fmt.Sprintf("%s; the first %d rows were added", shiftIndex(failed.Message, rows), rows)
	for i, field := range failed.Fields {
		failed.Fields[i] = shiftIndex(field, rows)
	}
	if failed.Applied == appliedNo {
		failed.Applied = appliedPartly
	} else {
		failed.Applied = appliedUnknown
	}
	failed.Temporary = false // The same rows again would add the first ones twice.
	return failed
}

var indexOfItem = regexp.MustCompile(`^items\[(\d+)\]`)

// shiftIndex adds the number of earlier rows to the index at the beginning of a field's path.
func shiftIndex(text string, rows int) string {
	return indexOfItem.ReplaceAllStringFunc(text, func(item string) string {
		index, _ := strconv.Atoi(indexOfItem.FindStringSubmatch(item)[1])
		return fmt.Sprintf("items[%d]", index+rows)
	})
}

// refusesRequest is true if the broker refused the request for what it contains.
func (e *CallError) refusesRequest() bool {
	return !e.Temporary && (e.Code == codes.InvalidArgument || e.Code == codes.ResourceExhausted)
}

// isAboutNext is true if the broker refused the claim of the next items, and not the settlement that carries it.
func (e *CallError) isAboutNext() bool {
	return slices.ContainsFunc(e.Fields, func(field string) bool { return strings.HasPrefix(field, "next") })
}

// refusesCaller is true if the broker does not let this program make the call.
func (e *CallError) refusesCaller() bool {
	return !e.Temporary && (e.Code == codes.Unauthenticated || e.Code == codes.PermissionDenied)
}

// decision is an error that says how its item ends. The outermost one counts.
type decision interface {
	error
	// name is the name of the function that has made it.
	name() string
	// delay is the time until the item is ready again. Nil: the queue's.
	delay() *time.Duration
}

type retryError struct {
	err   error
	after *time.Duration
}

func (e *retryError) Error() string { return textOf(e.err) }
func (e *retryError) Unwrap() error { return e.err }
func (e *retryError) name() string  { return "Retry" }

func (e *retryError) delay() *time.Duration { return e.after }

type deadLetterError struct{ err error }

func (e *deadLetterError) Error() string { return textOf(e.err) }
func (e *deadLetterError) Unwrap() error { return e.err }
func (e *deadLetterError) name() string  { return "DeadLetter" }

func (e *deadLetterError) delay() *time.Duration { return nil }

type releaseError struct{ after *time.Duration }

func (e *releaseError) Error() string { return "released" }
func (e *releaseError) name() string  { return "Release" }

func (e *releaseError) delay() *time.Duration { return e.after }

// The errors that say how an item ends are these for errors.Is, for example in the test of a handler. If one wraps another, the outermost
// one counts.
var (
	// ErrRetry is an error of Retry or RetryAfter.
	ErrRetry = errors.New("retry")
	// ErrDeadLetter is an error of DeadLetter.
	ErrDeadLetter = errors.New("dead letter")
	// ErrRelease is an error of Release or ReleaseAfter.
	ErrRelease = errors.New("release")
)

func (e *retryError) Is(target error) bool      { return target == ErrRetry }
func (e *deadLetterError) Is(target error) bool { return target == ErrDeadLetter }
func (e *releaseError) Is(target error) bool    { return target == ErrRelease }

// DelayOf returns the delay of the RetryAfter or ReleaseAfter that counts in an error. False: there is none.
func DelayOf(err error) (time.Duration, bool) {
	var decided decision
	if errors.As(err, &decided) && decided.delay() != nil {
		return *decided.delay(), true
	}
	return 0, false
}

// panicError is the panic of a handler.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprint(e.value) }

// Retry returns an error by which a handler fails its item. The item is tried again after the queue's backoff, if it has
// attempts left. Every other error of a handler does the same.
func Retry(err error) error { return &retryError{err: err} }

// RetryAfter is Retry with a delay in place of the queue's backoff. Up to 366 days.
func RetryAfter(err error, delay time.Duration) error { return &retryError{err: err, after: &delay} }

// DeadLetter returns an error by which a handler fails its item for good: the item becomes dead.
func DeadLetter(err error) error { return &deadLetterError{err: err} }

// Release returns an error by which a handler gives its item back. The attempt does not count.
func Release() error { return &releaseError{} }

// ReleaseAfter is Release with a delay before the item is ready again. Up to 366 days.
func ReleaseAfter(delay time.Duration) error { return &releaseError{after: &delay} }

// BatchError is returned by the handler of a batch if some items failed. Items that are not in the map are completed.
type BatchError map[*Item]error

func (e BatchError) Error() string { return fmt.Sprintf("%d items failed", len(e)) }

// maxErrorLength is the number of characters of an error's text that the broker stores.
const maxErrorLength = 1024

// errorText returns the text that is stored on the row: the name of the error's type and its message. The types of errors.New and
// fmt.Errorf tell nothing.
func errorText(err error) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
	var decided decision
	var panicked *panicError
	switch {
	case errors.As(err, &decided):
		name = decided.name()
	case errors.As(err, &panicked):
		name = "panic"
	}
	message := err.Error()
	switch {
	case message == "":
		return name
	case strings.HasPrefix(name, "errors."), strings.HasPrefix(name, "fmt."):
		return message
	}
	return name + ": " + message
}

// cutText makes a text valid UTF-8 of at most maxErrorLength characters.
func cutText(text string) string {
	characters := []rune(strings.ToValidUTF8(text, "\uFFFD"))
	return string(characters[:min(len(characters), maxErrorLength)])
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
