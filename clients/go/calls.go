// The one place where requests are sent again. gRPC's own retries are off: they stop after about three seconds, while a
// settlement is worth sending until its lease ends, and they can be neither observed nor stopped.

package leasebroker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

const (
	// attemptTimeout is the time after which an attempt is given up. Claims that wait add their wait.
	attemptTimeout = 10 * time.Second
	minBackoff     = 100 * time.Millisecond
	maxBackoff     = 5 * time.Second
)

// The values of CallError.Applied.
const (
	appliedNo      = "no"
	appliedPartly  = "partly"
	appliedUnknown = "unknown"
)

// method is an rpc of the generated client.
type method[Request proto.Message, Response any] func(context.Context, Request, ...grpc.CallOption) (Response, error)

// caller sends requests with the token of the program.
type caller struct {
	token TokenSource
	// onAttempt is called with the result of each attempt, nil if it was answered.
	onAttempt func(*failure)
	onRetry   func(retry)
	outages   outages
	// closed is true if the program has closed the client.
	closed atomic.Bool
}

// retry is a request that is about to be sent again.
type retry struct {
	rpc     string
	failure *failure
	attempt int
	wait    time.Duration
}

// failure is the error of one attempt.
type failure struct {
	code    codes.Code
	reason  string
	message string
	fields  []string
	// applied is appliedNo if the broker says that the attempt has changed nothing and will change nothing.
	applied string
	// pushback is the time that the broker asks to wait. Negative: the request must not be sent again.
	pushback *time.Duration
}

// callOptions say how long a call is worth sending.
type callOptions struct {
	// until returns the moment after which no attempt is made. Nil: there is none.
	until func() time.Time
	// attemptTimeout is the deadline of each attempt. 0: attemptTimeout.
	attemptTimeout time.Duration
	// onRetry is called before the request is sent again.
	onRetry func()
	// givesUp takes each failure after which the request can be sent again. It returns true if that is of no use. Nil: it always is
	// of use.
	givesUp func(*failure) bool
}

// answer is the response to a request.
type answer[Response any] struct {
	message Response
	// firstSentAt and sentAt are the moments before the first attempt and before the answered one.
	firstSentAt, sentAt time.Time
	// arrivedAt is the moment at which the response arrived.
	arrivedAt time.Time
	attempts  int
	// applied is as in failure, for all attempts of a call that has failed.
	applied string
}

// call sends a request until it is answered, until that is of no use, or until the context ends. Its error is a *CallError.
func call[Request proto.Message, Response any](
	ctx context.Context, c *caller, rpc string, send method[Request, Response], request Request, options callOptions,
) (answer[Response], error) {
	if options.attemptTimeout == 0 {
		options.attemptTimeout = attemptTimeout
	}
	backoff, fresh := minBackoff, false
	result := answer[Response]{firstSentAt: time.Now(), applied: appliedNo}
	for {
		if c.closed.Load() {
			failure := &failure{code: codes.FailedPrecondition, message: "the client is closed", applied: result.applied}
			return result, failure.error(rpc)
		}
		result.attempts++
		result.sentAt = time.Now()
		timeout := options.attemptTimeout
		if options.until != nil {
			timeout = max(min(timeout, time.Until(options.until())), time.Millisecond)
		}
		message, failure := attempt(ctx, c, send, request, timeout, fresh)
		if failure == nil {
			result.message, result.arrivedAt = message, time.Now()
			return result, nil
		}
		if result.applied == appliedUnknown {
			// An earlier attempt may have been applied.
			failure.applied = appliedUnknown
		}
		result.applied = failure.applied
		if err := ctx.Err(); err != nil {
			return result, failure.endedBy(err, rpc)
		}
		if c.closed.Load() {
			continue
		}
		var wait time.Duration
		switch {
		case failure.code == codes.Unauthenticated && !failure.asksToWait() && c.token != nil && !fresh:
			fresh = true
		case !failure.mayPass():
			return result, failure.error(rpc)
		case options.givesUp != nil && options.givesUp(failure):
			return result, failure.error(rpc)
		case failure.asksToWait():
			wait = *failure.pushback
		default:
			wait = jitter(backoff)
			backoff = nextBackoff(backoff, options.attemptTimeout)
		}
		if options.until != nil && !time.Now().Add(wait).Before(options.until()) {
			return result, failure.endedBy(context.DeadlineExceeded, rpc)
		}
		c.onRetry(retry{rpc, failure, result.attempts, wait})
		if options.onRetry != nil {
			options.onRetry()
		}
		if !sleep(ctx, wait) {
			return result, failure.endedBy(ctx.Err(), rpc)
		}
	}
}

// pauseAfterLock returns the wait before entries are sent again that a lock has refused this often, or a *CallError if that does not
// end in the time that is left.
func (c *caller) pauseAfterLock(rpc string, tries int, left, attemptTimeout time.Duration) (time.Duration, error) {
	backoff := minBackoff
	for range tries - 1 {
		backoff = nextBackoff(backoff, attemptTimeout)
	}
	wait := jitter(backoff)
	const text = "another transaction has locked the row"
	failure := &failure{code: codes.Unavailable, reason: "LOCKED", message: text, applied: appliedNo}
	if wait >= left {
		return 0, failure.error(rpc)
	}
	c.onRetry(retry{rpc, failure, tries, wait})
	return wait, nil
}

// attempt sends a request once.
func attempt[Request proto.Message, Response any](
	ctx context.Context, c *caller, send method[Request, Response], request Request, timeout time.Duration, fresh bool,
) (Response, *failure) {
	route := &route{outages: &c.outages}
	attemptCtx, cancel := context.WithTimeout(route.context(ctx), timeout)
	defer cancel()
	if c.token != nil {
		token, failure := c.readToken(attemptCtx, fresh)
		if failure != nil {
			c.note(ctx, failure)
			var none Response
			return none, failure
		}
		attemptCtx = metadata.AppendToOutgoingContext(attemptCtx, "authorization", "Bearer "+token)
	}
	var trailer metadata.MD
	message, err := send(attemptCtx, request, grpc.Trailer(&trailer))
	if err == nil {
		c.onAttempt(nil)
		return message, nil
	}
	result := readFailure(err, trailer)
	if !route.picked.Load() {
		result.applied = appliedNo
	}
	if result.code == codes.Internal && result.reason == "" {
		// gRPC reports a request that it cannot encode by the same code as a broken connection.
		if _, err := proto.Marshal(request); err != nil {
			text := "the request cannot be encoded: " + err.Error()
			return message, &failure{code: codes.InvalidArgument, message: text, applied: appliedNo}
		}
	}
	c.note(ctx, result)
	return message, result
}

// readToken returns the token without the white space around it. The text of a refusal does not contain the token.
func (c *caller) readToken(ctx context.Context, fresh bool) (string, *failure) {
	unreadable := func(cause any) *failure {
		return &failure{code: codes.Unavailable, message: fmt.Sprintf("the token cannot be read: %v", cause), applied: appliedNo}
	}
	token, err := c.token.ask(ctx, fresh)
	if errors.Is(err, errTokenIsFile) {
		return "", &failure{code: codes.Unauthenticated, message: err.Error(), applied: appliedNo}
	}
	if err != nil {
		// Its file is being replaced, or an identity service is away.
		return "", unreadable(err)
	}
	token = strings.TrimSpace(token)
	if strings.ContainsFunc(token, func(character rune) bool { return character < ' ' || character > '~' }) {
		text := "the token has a character that is not printable ASCII"
		return "", &failure{code: codes.Unauthenticated, message: text, applied: appliedNo}
	}
	return token, nil
}

// note passes on the failure of an attempt, unless the context of the call has ended it.
func (c *caller) note(ctx context.Context, failure *failure) {
	if ctx.Err() == nil {
		c.onAttempt(failure)
	}
}

// nextBackoff returns the wait after another one. An attempt at a settlement may take half of the lease, and at least 1 s. So a wait
// takes at most a quarter of the lease, or 0.5 s, and heartbeats extend the lease more often.
func nextBackoff(backoff, attemptTimeout time.Duration) time.Duration {
	return min(backoff*2, maxBackoff, attemptTimeout/2)
}

// jitter keeps many workers from sending at the same time.
func jitter(backoff time.Duration) time.Duration {
	return time.Duration(float64(backoff) * (0.5 + rand.Float64()/2))
}

// sleep returns false if the context ends first.
func sleep(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// mayPass is true if the same request can succeed later.
func (f *failure) mayPass() bool {
	// The broker sends a pushback of -1 with its own DEADLINE_EXCEEDED. The next attempt has a deadline of its own.
	if f.pushback != nil && f.code != codes.DeadlineExceeded {
		return f.asksToWait()
	}
	switch f.code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return true
	case codes.Unknown, codes.Internal:
		// Without a reason of the broker the error is the connection's.
		return f.reason == ""
	case codes.ResourceExhausted:
		// Without a reason of the broker it is this program's own limit, and the next response is as large.
		return f.reason == "OVERLOADED"
	default:
		return false
	}
}

// asksToWait is true if the broker asks to send the request again after some time.
func (f *failure) asksToWait() bool {
	return f.pushback != nil && *f.pushback >= 0
}

// text returns the code, the broker's reason and the message.
func (f *failure) text() string {
	if f.reason == "" {
		return f.code.String() + ": " + f.message
	}
	return f.code.String() + " (" + f.reason + "): " + f.message
}

func (f *failure) error(rpc string) *CallError {
	return &CallError{
		RPC: rpc, Code: f.code, Reason: f.reason, Message: f.message, Fields: f.fields, Applied: f.applied, Temporary: f.mayPass(),
	}
}

// endedBy returns the error of a call that could be sent again, but that its context or its time has ended.
func (f *failure) endedBy(cause error, rpc string) *CallError {
	err := f.error(rpc)
	err.cause = cause
	return err
}

// checkCount returns a failure unless the answer has one result for each entry of the request.
func checkCount(results, entries int) *failure {
	if results == entries {
		return nil
	}
	message, never := fmt.Sprintf("the answer has %d results for %d entries", results, entries), time.Duration(-1)
	return &failure{code: codes.Internal, message: message, applied: appliedUnknown, pushback: &never}
}

// readCallError reads the error of a claim that was part of another call.
func readCallError(given *pb.CallError) *failure {
	result := &failure{
		code: codes.Code(given.GetCode()), reason: given.GetReason(), message: given.GetMessage(),
		applied: readApplied(given.GetMetadata()),
	}
	if given.RetryDelay != nil {
		wait := given.RetryDelay.AsDuration()
		result.pushback = &wait
	}
	return result
}

func readApplied(metadata map[string]string) string {
	if metadata["applied"] == appliedNo {
		return appliedNo
	}
	return appliedUnknown
}

// readFailure reads a status with the broker's reason and the time that it asks to wait.
func readFailure(err error, trailer metadata.MD) *failure {
	if errors.Is(err, context.DeadlineExceeded) {
		return &failure{code: codes.DeadlineExceeded, message: err.Error(), applied: appliedUnknown}
	}
	given := status.Convert(err)
	result := &failure{code: given.Code(), message: given.Message(), applied: appliedUnknown}
	for _, detail := range given.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.Domain == "leasebroker" {
				result.reason, result.applied = detail.Reason, readApplied(detail.Metadata)
			}
		case *errdetails.RetryInfo:
			wait := detail.GetRetryDelay().AsDuration()
			result.pushback = &wait
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				result.fields = append(result.fields, violation.GetField())
			}
		}
	}
	if values := trailer.Get("grpc-retry-pushback-ms"); len(values) > 0 {
		milliseconds, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil {
			milliseconds = -1
		}
		wait := time.Duration(milliseconds) * time.Millisecond
		result.pushback = &wait
	}
	result.readContentTooLarge()
	return result
}
