package leasebroker_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/lease-broker/clients/go"
)

type (
	item   = leasebroker.Item
	result = leasebroker.Result
)

func TestErrorSaysHowTheItemEnds(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		state string
		text  string
	}{
		"plain":       {errors.New("bad"), "delayed", "bad"},
		"retry":       {leasebroker.RetryAfter(errors.New("no paper"), time.Minute), "delayed", "Retry: no paper"},
		"dead letter": {leasebroker.DeadLetter(errors.New("no customer")), "dead", "DeadLetter: no customer"},
		"release":     {leasebroker.ReleaseAfter(time.Minute), "delayed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t)
			b.enqueue("work", payloads(1)...)
			_, events := b.work(func(context.Context, *item) (*result, error) { return nil, test.err })
			if name == "release" {
				events.wait(leasebroker.EventReleased, 1)
			} else {
				events.wait(leasebroker.EventFailed, 1)
			}
			rows := b.rows("work", test.state)
			if len(rows) != 1 || rows[0].Error != test.text {
				t.Errorf("the items that are %s: %+v", test.state, rows)
			}
		})
	}
}

func TestPanicFailsTheItem(t *testing.T) {
	b := newBroker(t)
	b.enqueue("work", payloads(1)...)
	_, events := b.work(func(context.Context, *item) (*result, error) { panic("broken") })
	events.wait(leasebroker.EventFailed, 1)
	if rows := b.rows("work", "delayed"); len(rows) != 1 || rows[0].Error != "panic: broken" {
		t.Errorf("%+v", rows)
	}
}

func TestHandlerThatEndsItsGoroutineFailsTheItem(t *testing.T) {
	b := newBroker(t)
	b.enqueue("work", payloads(3)...)
	var calls atomic.Int32
	_, events := b.work(func(context.Context, *item) (*result, error) {
		if calls.Add(1) == 2 {
			runtime.Goexit()
		}
		return nil, nil
	})
	events.wait(leasebroker.EventFailed, 1)
	events.wait(leasebroker.EventCompleted, 2)
	if rows := b.rows("work", "delayed"); len(rows) != 1 || !strings.Contains(rows[0].Error, "runtime.Goexit") {
		t.Errorf("%+v", rows)
	}
}

func TestResultIsWritten(t *testing.T) {
	b := newBroker(t)
	b.enqueue("daily", leasebroker.Row{"note": nil})
	notes := make(chan any, 10)
	b.workOn("daily", func(_ context.Context, item *item) (*result, error) {
		notes <- item.Columns["note"]
		return &result{
			Columns:   leasebroker.Row{"note": "done"},
			FollowUps: []leasebroker.FollowUp{{Queue: "next", Columns: leasebroker.Row{"number": 7}}},
		}, nil
	})
	if first, second := <-notes, <-notes; first != nil || second != "done" {
		t.Errorf("the notes are %v and %v", first, second)
	}
	numbers := make(chan any, 10)
	b.workOn("next", func(_ context.Context, item *item) (*result, error) {
		numbers <- item.Columns["number"]
		return nil, nil
	})
	if number := <-numbers; number != int64(7) {
		t.Errorf("the follow-up has %v", number)
	}
}

func TestRefusedCompletionFailsOneItem(t *testing.T) {
	b := newBroker(t)
	b.enqueue("work", payloads(10)...)
	_, events := b.work(func(_ context.Context, item *item) (*result, error) {
		column := "note"
		if number, _ := item.Int64("amount"); number == 3 {
			column = "amount"
		}
		return &result{Columns: leasebroker.Row{column: "1"}}, nil
	}, leasebroker.Concurrency(10))
	events.wait(leasebroker.EventCompleted, 9)
	events.wait(leasebroker.EventFailed, 1)
	if problem := events.find(leasebroker.EventRefused).Reason; !strings.Contains(problem, "amount") {
		t.Errorf("the problem is %q", problem)
	}
	if rows := b.rows("work", "delayed"); len(rows) != 1 || !strings.HasPrefix(rows[0].Error, "Refused: ") {
		t.Errorf("%+v", rows)
	}
}

func TestResultWithInvalidUTF8FailsOneItem(t *testing.T) {
	followUp := func(followUp leasebroker.FollowUp) *result {
		return &result{FollowUps: []leasebroker.FollowUp{followUp}}
	}
	for name, bad := range map[string]*result{
		"column":       {Columns: leasebroker.Row{"note\xff": "1"}},
		"decimal":      {Columns: leasebroker.Row{"note": leasebroker.Decimal("1\xff")}},
		"queue":        followUp(leasebroker.FollowUp{Queue: "next\xff", Columns: leasebroker.Row{"number": 1}}),
		"trace parent": followUp(leasebroker.FollowUp{Queue: "next", Columns: leasebroker.Row{"number": 1}, TraceParent: "\xff"}),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t)
			b.enqueue("work", payloads(5)...)
			_, events := b.work(func(_ context.Context, item *item) (*result, error) {
				if number, _ := item.Int64("amount"); number == 3 {
					return bad, nil
				}
				return nil, nil
			}, leasebroker.Concurrency(5))
			events.wait(leasebroker.EventFailed, 1)
			events.wait(leasebroker.EventCompleted, 4)
			problem := "is not valid UTF-8"
			if name == "decimal" {
				problem = "must be decimal digits"
			}
			if text := events.find(leasebroker.EventFailed).Error; !strings.Contains(text, problem) {
				t.Errorf("the error is %q", text)
			}
		})
	}
}

func TestLongDelayOfARetryIsCut(t *testing.T) {
	b := newBroker(t)
	b.enqueue("work", payloads(10)...)
	_, events := b.work(func(_ context.Context, item *item) (*result, error) {
		delay := time.Minute
		if number, _ := item.Int64("amount"); number == 3 {
			delay = 10_000 * time.Hour
		}
		return nil, leasebroker.RetryAfter(errors.New("later"), delay)
	}, leasebroker.Concurrency(10))
	events.wait(leasebroker.EventFailed, 10)
	events.settle()
	if events.counts[leasebroker.EventRefused] != 0 {
		t.Errorf("the events are %v", events.counts)
	}
	b.expect(map[string]int{"delayed": 10})
}

func TestBatchErrorFailsTheNamedItems(t *testing.T) {
	b := newBroker(t)
	b.enqueue("work", payloads(100)...)
	events := newWatcher(t)
	var largest atomic.Int64
	worker, err := leasebroker.NewBatchWorker(b.address, "work", 50,
		func(_ context.Context, items []*item) (map[*item]*result, error) {
			largest.Store(max(largest.Load(), int64(len(items))))
			failures := leasebroker.BatchError{}
			for _, item := range items {
				if number, _ := item.Int64("amount"); number == 7 {
					failures[item] = errors.New("seven")
				}
			}
			if len(failures) > 0 {
				return nil, failures
			}
			return nil, nil
		}, events.option())
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	events.wait(leasebroker.EventCompleted, 99)
	events.wait(leasebroker.EventFailed, 1)
	if err := worker.Stop(time.Second); err != nil {
		t.Fatal(err)
	}
	b.expect(map[string]int{"completed": 99, "delayed": 1})
	if largest.Load() != 50 {
		t.Errorf("the largest batch has %d items", largest.Load())
	}
}

func TestStrangerInTheAnswerOfAHandlerFailsTheBatch(t *testing.T) {
	for name, answer := range map[string]func(stranger *item) (map[*item]*result, error){
		"error": func(stranger *item) (map[*item]*result, error) {
			return nil, leasebroker.BatchError{stranger: errors.New("no")}
		},
		"nil":    func(*item) (map[*item]*result, error) { return nil, leasebroker.BatchError{nil: errors.New("no")} },
		"result": func(stranger *item) (map[*item]*result, error) { return map[*item]*result{stranger: nil}, nil },
	} {
		b := newBroker(t)
		b.enqueue("work", payloads(3)...)
		events := newWatcher(t)
		worker, err := leasebroker.NewBatchWorker(b.address, "work", 3,
			func(_ context.Context, items []*item) (map[*item]*result, error) {
				copied := *items[0]
				return answer(&copied)
			}, events.option())
		if err != nil {
			t.Fatal(err)
		}
		if err := worker.Start(); err != nil {
			t.Fatal(err)
		}
		events.wait(leasebroker.EventFailed, 3)
		if text := events.find(leasebroker.EventFailed).Error; !strings.Contains(text, "is no item of the batch") {
			t.Errorf("%s: the error is %q", name, text)
		}
		if err := worker.Stop(time.Second); err != nil {
			t.Fatal(err)
		}
	}
}

// exiting is an error whose text ends the goroutine.
type exiting struct{}

func (exiting) Error() string { runtime.Goexit(); return "" }

func TestErrorThatEndsItsGoroutineFailsTheItem(t *testing.T) {
	b := newBroker(t)
	b.enqueue("work", payloads(2)...)
	var calls atomic.Int32
	_, events := b.work(func(context.Context, *item) (*result, error) {
		if calls.Add(1) == 1 {
			return nil, exiting{}
		}
		panic(exiting{})
	})
	events.wait(leasebroker.EventFailed, 2)
	for _, row := range b.rows("work", "delayed") {
		if !strings.Contains(row.Error, "runtime.Goexit") {
			t.Errorf("%+v", row)
		}
	}
}

// explosive is an error whose text cannot be read.
type explosive struct{}

func (explosive) Error() string { panic("no text") }

func TestErrorThatPanicsFailsOnlyItsItem(t *testing.T) {
	b := newBroker(t)
	b.enqueue("work", payloads(5)...)
	events := newWatcher(t)
	worker, err := leasebroker.NewBatchWorker(b.address, "work", 5,
		func(_ context.Context, items []*item) (map[*item]*result, error) {
			return nil, leasebroker.BatchError{items[0]: explosive{}}
		}, events.option())
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	events.wait(leasebroker.EventFailed, 1)
	if text := events.find(leasebroker.EventFailed).Error; text != "panic: no text" {
		t.Errorf("the error is %q", text)
	}
	if err := worker.Stop(time.Second); err != nil {
		t.Fatal(err)
	}
	b.expect(map[string]int{"completed": 4, "delayed": 1})
}

func TestCancelledLeaseCancelsTheHandler(t *testing.T) {
	b := newBroker(t)
	b.enqueue("work", payloads(1)...)
	cause := make(chan error, 1)
	_, events := b.work(func(ctx context.Context, item *item) (*result, error) {
		if item.FencingToken > 1 {
			return nil, nil
		}
		if err := b.cancel(item.Key, "wrong customer"); err != nil {
			return nil, err
		}
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil, nil
	}, leasebroker.Lease(shortLease))
	events.wait(leasebroker.EventCompleted, 1)
	if err := <-cause; !errors.Is(err, leasebroker.ErrLeaseLost) || !strings.Contains(err.Error(), "wrong customer") {
		t.Errorf("the cause is %v", err)
	}
	if event := events.find(leasebroker.EventCancelled); event.Cause != "lease_lost" {
		t.Errorf("%+v", event)
	}
}

func TestTimeLimitFailsTheItem(t *testing.T) {
	b := newBroker(t)
	b.enqueue("work", payloads(1)...)
	_, events := b.work(func(ctx context.Context, _ *item) (*result, error) {
		if _, ok := ctx.Deadline(); !ok {
			return nil, leasebroker.DeadLetter(errors.New("no deadline"))
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}, leasebroker.TimeLimit(500*time.Millisecond))
	events.wait(leasebroker.EventFailed, 1)
	if rows := b.rows("work", "delayed"); len(rows) != 1 || rows[0].Error != "time limit of 0.5 s" {
		t.Errorf("%+v", rows)
	}
}

func TestStuckHandlersAreReplacedUpToTheLimit(t *testing.T) {
	b := newBroker(t)
	done := make(chan struct{})
	handler := func(_ context.Context, item *item) (*result, error) {
		if text, _ := item.Text("payload"); text == "stuck" {
			<-done
		}
		return nil, nil
	}
	worker, events := b.work(handler, leasebroker.TimeLimit(300*time.Millisecond),
		leasebroker.StuckAfter(300*time.Millisecond), leasebroker.MaxStuck(1))
	b.enqueue("work", leasebroker.Row{"payload": "stuck"})
	events.wait(leasebroker.EventStuck, 1)
	if stack := events.find(leasebroker.EventStuck).Stack; !strings.Contains(stack, "TestStuckHandlers") {
		t.Errorf("the stack is %s", stack)
	}
	b.enqueue("work", payloads(20)...)
	events.wait(leasebroker.EventCompleted, 20)
	if !worker.Health() {
		t.Error("the worker is not healthy although the handler was replaced")
	}
	b.enqueue("work", leasebroker.Row{"payload": "stuck"})
	events.wait(leasebroker.EventStuck, 2)
	if worker.Health() {
		t.Error("the worker is healthy although too many handlers are stuck")
	}
	close(done)
}

func TestStoppingWorkerLeavesHandlersThatIgnoreIt(t *testing.T) {
	b := newBroker(t)
	b.enqueue("work", payloads(1)...)
	done := make(chan struct{})
	defer close(done)
	worker, events := b.work(func(context.Context, *item) (*result, error) {
		<-done
		return nil, nil
	})
	events.wait(leasebroker.EventStarted, 1)
	if err := worker.Stop(0); !errors.Is(err, leasebroker.ErrHandlersLeft) {
		t.Errorf("Stop returns %v", err)
	}
}

func TestRequestStopInAHandlerDoesNotWaitForTheHandler(t *testing.T) {
	b := newBroker(t)
	b.enqueue("work", payloads(1)...)
	workers := make(chan *leasebroker.Worker, 1)
	worker, events := b.work(func(ctx context.Context, _ *item) (*result, error) {
		(<-workers).RequestStop(time.Minute)
		return nil, ctx.Err()
	})
	workers <- worker
	events.wait(leasebroker.EventStopped, 1)
	if completed := worker.Counters()[leasebroker.EventCompleted]; completed != 1 {
		t.Errorf("%d items are completed", completed)
	}
	if err := worker.Stop(0); err != nil {
		t.Errorf("Stop returns %v", err)
	}
}

func TestHeartbeatStoresTheCheckpoint(t *testing.T) {
	b := newBroker(t)
	b.enqueue("work", payloads(1)...)
	var first atomic.Bool
	stored, checkpoints := make(chan struct{}), make(chan string, 1)
	_, events := b.work(func(ctx context.Context, item *item) (*result, error) {
		if !first.CompareAndSwap(false, true) {
			checkpoints <- string(item.Checkpoint)
			return nil, nil
		}
		item.SaveCheckpoint([]byte("page 7"))
		<-stored
		if err := b.cancel(item.Key, "moved"); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, nil
	}, leasebroker.Lease(shortLease))
	events.wait(leasebroker.EventHeartbeat, 1)
	close(stored)
	events.wait(leasebroker.EventCompleted, 1)
	if checkpoint := <-checkpoints; checkpoint != "page 7" {
		t.Errorf("the checkpoint is %q", checkpoint)
	}
}

func TestRefusedCheckpointLosesNoLease(t *testing.T) {
	b := newBroker(t)
	b.enqueue("work", payloads(2)...)
	_, events := b.work(func(_ context.Context, item *item) (*result, error) {
		number, _ := item.Int64("amount")
		item.SaveCheckpoint(make([]byte, []int{5_000, 70_000}[number])) // The queue stores 4,096 bytes.
		time.Sleep(shortLease + time.Second)
		return nil, nil
	}, leasebroker.Concurrency(2), leasebroker.Lease(shortLease))
	events.wait(leasebroker.EventCompleted, 2)
	if events.counts[leasebroker.EventLost] != 0 {
		t.Errorf("the events are %v", events.counts)
	}
}

func TestQueueWithoutCheckpointsCompletesItsItems(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.enqueue("next", leasebroker.Row{"number": 1}, leasebroker.Row{"number": 2})
	var log lockedBuffer
	_, events := b.workOn("next", func(_ context.Context, item *item) (*result, error) {
		item.SaveCheckpoint([]byte("page 7"))
		time.Sleep(shortLease)
		return nil, nil
	}, leasebroker.Lease(shortLease), leasebroker.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	events.wait(leasebroker.EventCompleted, 2)
	if text := log.text(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, `queue=next key=`) ||
		!strings.Contains(text, `has no checkpoints`) {
		t.Errorf("the log is %s", text)
	}
}

func TestUnknownQueueEndsTheWorker(t *testing.T) {
	b := newBroker(t)
	worker, err := leasebroker.NewWorker(b.address, "no_such_queue",
		func(context.Context, *item) (*result, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	var refused *leasebroker.CallError
	if err := worker.Run(context.Background()); !errors.As(err, &refused) || refused.Reason != "QUEUE_NOT_FOUND" {
		t.Errorf("Run returns %v", err)
	}
}

func TestWorkerThatWasStoppedFirstDoesNothing(t *testing.T) {
	b := newBroker(t)
	b.enqueue("work", leasebroker.Row{"payload": "x"})
	worker, err := leasebroker.NewWorker(b.address, "work", func(context.Context, *item) (*result, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(worker.Stop(0), worker.Run(context.Background()), worker.Start()); err != nil {
		t.Fatal(err)
	}
	if ready := len(b.rows("work", "ready")); ready != 1 {
		t.Errorf("%d items are ready, not 1", ready)
	}
}

func TestWorkerStartsOnce(t *testing.T) {
	b := newBroker(t)
	worker, _ := b.work(func(context.Context, *item) (*result, error) { return nil, nil })
	if worker.Start() == nil {
		t.Error("a second start succeeded")
	}
	if err := worker.Stop(0); err != nil {
		t.Fatal(err)
	}
	if worker.Start() == nil {
		t.Error("a start after the stop succeeded")
	}
}

func TestObserverThatPanicsIsIgnored(t *testing.T) {
	b := newBroker(t)
	b.enqueue("work", payloads(2)...)
	worker, err := leasebroker.NewWorker(b.address, "work",
		func(context.Context, *item) (*result, error) { return nil, nil },
		leasebroker.OnEvent(func(leasebroker.Event) { panic("broken observer") }))
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	for worker.Counters()[leasebroker.EventCompleted] < 2 {
		time.Sleep(10 * time.Millisecond)
	}
	if err := worker.Stop(0); err != nil {
		t.Fatal(err)
	}
}

func TestWakeAndDelayedItems(t *testing.T) {
	b := newBroker(t)
	client := b.client()
	if err := client.Wake(context.Background(), "work"); err != nil {
		t.Fatal(err)
	}
	rows := payloads(1_500)
	keys, err := client.Enqueue(context.Background(), "work", rows, leasebroker.Delay(time.Hour))
	if err != nil || len(keys) != 1_500 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	if delayed := len(b.rows("work", "delayed")); delayed != 1_000 {
		t.Errorf("%d of the first 1,000 items are delayed", delayed)
	}
}
