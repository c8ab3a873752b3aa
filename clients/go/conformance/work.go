package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/lease-broker/clients/go"
)

// script says what the handler does with an item. It is the item's column `payload`.
type script struct {
	SleepMS      float64 `json:"sleep_ms"`
	BlockMS      float64 `json:"block_ms"`
	HoldMS       float64 `json:"hold_ms"`
	Then         string  `json:"then"`
	AfterMS      float64 `json:"after_ms"`
	IgnoreCancel bool    `json:"ignore_cancel"`
	FollowUps    []struct {
		Queue   string         `json:"queue"`
		Columns map[string]any `json:"columns"`
	} `json:"follow_ups"`
	Columns    map[string]any `json:"columns"`
	Checkpoint string         `json:"checkpoint"`
	Effect     string         `json:"effect"`
}

// work has the handlers.
type work struct {
	effects string
	noop    bool
	out     *journal
}

func (w *work) one(ctx context.Context, item *leasebroker.Item) (*leasebroker.Result, error) {
	if w.noop {
		return nil, nil
	}
	payload, err := item.Text("payload")
	if err != nil {
		return nil, err
	}
	var todo script
	decoder := json.NewDecoder(strings.NewReader(payload))
	decoder.UseNumber()
	if err := decoder.Decode(&todo); err != nil {
		return nil, err
	}
	if todo.Checkpoint != "" {
		item.SaveCheckpoint([]byte(todo.Checkpoint))
	}
	if err := todo.spendTime(ctx); err != nil {
		return nil, err
	}
	if todo.Effect != "" {
		if err := w.effect(todo.Effect, item); err != nil {
			return nil, err
		}
	}
	return todo.end()
}

// batch does each item in turn, and fails those that fail.
func (w *work) batch(ctx context.Context, items []*leasebroker.Item) (map[*leasebroker.Item]*leasebroker.Result, error) {
	results, failures := map[*leasebroker.Item]*leasebroker.Result{}, leasebroker.BatchError{}
	for _, item := range items {
		result, err := w.one(ctx, item)
		if err != nil {
			failures[item] = err
		}
		results[item] = result
	}
	if len(failures) > 0 {
		return results, failures
	}
	return results, nil
}

func (s *script) spendTime(ctx context.Context) error {
	done := ctx.Done()
	if s.IgnoreCancel {
		done = nil
	}
	sleep := time.NewTimer(milliseconds(s.SleepMS))
	defer sleep.Stop()
	select {
	case <-sleep.C:
	case <-done:
		return context.Cause(ctx)
	}
	block(milliseconds(s.BlockMS + s.HoldMS))
	return nil
}

// block blocks the thread of the operating system.
func block(duration time.Duration) {
	until := time.Now().Add(duration)
	for left := duration; left > 0; left = time.Until(until) {
		pause := unix.NsecToTimespec(left.Nanoseconds())
		_ = unix.Nanosleep(&pause, nil) // A signal to the process ends it early.
	}
}

// raised is an error whose type is in the text on the row.
type raised struct{}

func (raised) Error() string { return "raised" }

func (s *script) end() (*leasebroker.Result, error) {
	after := milliseconds(s.AfterMS)
	switch s.Then {
	case "", "complete":
		result := &leasebroker.Result{Columns: row(s.Columns)}
		for _, followUp := range s.FollowUps {
			result.FollowUps = append(result.FollowUps, leasebroker.FollowUp{Queue: followUp.Queue, Columns: row(followUp.Columns)})
		}
		return result, nil
	case "raise":
		return nil, raised{}
	case "retry":
		if s.AfterMS > 0 {
			return nil, leasebroker.RetryAfter(errors.New("retry"), after)
		}
		return nil, leasebroker.Retry(errors.New("retry"))
	case "dead":
		return nil, leasebroker.DeadLetter(errors.New("dead"))
	case "release":
		if s.AfterMS > 0 {
			return nil, leasebroker.ReleaseAfter(after)
		}
		return nil, leasebroker.Release()
	case "exit":
		os.Exit(3)
	}
	return nil, fmt.Errorf("unknown ending %q", s.Then)
}

// row makes integers of JSON numbers without a point.
func row(columns map[string]any) leasebroker.Row {
	row := leasebroker.Row{}
	for name, value := range columns {
		if number, ok := value.(json.Number); ok {
			if integer, err := number.Int64(); err == nil {
				value = integer
			} else {
				value, _ = number.Float64()
			}
		}
		row[name] = value
	}
	return row
}

// effect appends a line to the file of effects, unless a later lease has done so before.
func (w *work) effect(name string, item *leasebroker.Item) error {
	file, err := os.OpenFile(w.effects, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || fields[0] != name || fields[1] != item.Key {
			continue
		}
		if fence, _ := strconv.ParseInt(fields[2], 10, 64); fence > item.FencingToken {
			w.out.print(map[string]any{"ev": "effect_refused", "key": item.Key, "attempt": item.Attempt, "fence": item.FencingToken})
			return nil
		}
	}
	_, err = fmt.Fprintf(file, "%s %s %d\n", name, item.Key, item.FencingToken)
	return err
}
