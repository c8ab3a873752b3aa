package main

import (
	"encoding/json"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"example.com/lease-broker/clients/go"
)

// journal prints the events of the worker. Each line is written before the act that follows the event.
type journal struct {
	// quiet: events are not printed. After `until` completed items `stop` is called.
	quiet bool
	until int64
	stop  func()

	mu        sync.Mutex
	completed int64
	begun     clock
}

// ready says that the worker runs.
func (j *journal) ready() {
	j.begun = readClock()
	j.print(map[string]any{"ev": "ready"})
}

func (j *journal) event(event leasebroker.Event) {
	if j.quiet {
		j.count(event)
		return
	}
	line := map[string]any{"ev": event.Name}
	if item := event.Item; item != nil {
		line["key"], line["attempt"], line["fence"] = item.Key, item.Attempt, item.FencingToken
		if event.Name == leasebroker.EventStarted {
			line["checkpoint"] = nil
			if item.Checkpoint != nil {
				line["checkpoint"] = string(item.Checkpoint)
			}
		}
	}
	for name, text := range map[string]string{"cause": event.Cause, "reason": event.Reason, "error": event.Error, "rpc": event.RPC, "code": event.Code} {
		if text != "" {
			line[name] = text
		}
	}
	if event.Count > 0 {
		line["count"] = event.Count
	}
	if event.Name == leasebroker.EventRetry {
		line["attempt"], line["wait_ms"] = event.Try, event.Wait.Milliseconds()
	}
	j.print(line)
}

// count stops the worker when enough items are completed.
func (j *journal) count(event leasebroker.Event) {
	if event.Name != leasebroker.EventCompleted {
		return
	}
	j.mu.Lock()
	j.completed++
	done := j.until > 0 && j.completed == j.until
	j.mu.Unlock()
	if done {
		j.done(j.until)
		j.stop()
	}
}

// done prints the number of items, and the times since `ready`.
func (j *journal) done(items int64) {
	now := readClock()
	j.print(map[string]any{
		"ev": "done", "items": items,
		"seconds":     (now.wall - j.begun.wall).Seconds(),
		"cpu_seconds": (now.processor - j.begun.processor).Seconds(),
	})
}

func (j *journal) print(line map[string]any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	line["at_ms"] = readClock().wall.Milliseconds()
	text, err := json.Marshal(line)
	check(err)
	_, err = os.Stdout.Write(append(text, '\n'))
	check(err)
}

// clock has the monotonic time of the machine and the processor time of this program.
type clock struct{ wall, processor time.Duration }

func readClock() clock {
	var monotonic, processor unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic))
	check(unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &processor))
	return clock{time.Duration(monotonic.Nano()), time.Duration(processor.Nano())}
}
