// A worker of `lease-broker demo --language go`. The command passes: address, name, items per batch, journal file.
//
// It computes the litres of rain of each row, writes them into the row, and adds them to the queue `outbox`. Its journal has
// a line for each step with an item, written before the next step.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"time"

	"example.com/lease-broker/clients/go"
)

const timePerItem = 3 * time.Millisecond

// actions are the events that the demo reads, with their names in the journal.
var actions = map[leasebroker.EventName]string{
	leasebroker.EventClaimed:   "claimed",
	leasebroker.EventCompleted: "completed",
	leasebroker.EventLost:      "lost",
	leasebroker.EventUnknown:   "lost",
}

type demo struct {
	name    string
	journal *os.File
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(arguments []string) error {
	if len(arguments) != 4 {
		return fmt.Errorf("%d arguments instead of 4", len(arguments))
	}
	batch, err := strconv.Atoi(arguments[2])
	if err != nil {
		return err
	}
	journal, err := os.OpenFile(arguments[3], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	demo := &demo{name: arguments[1], journal: journal}
	worker, err := leasebroker.NewBatchWorker(arguments[0], "rainfall", batch, demo.process,
		leasebroker.WorkerID(demo.name), leasebroker.OnEvent(demo.record))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		// The demo closes standard input when the worker shall stop.
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return worker.Run(ctx)
}

func (d *demo) process(ctx context.Context, items []*leasebroker.Item) (map[*leasebroker.Item]*leasebroker.Result, error) {
	select {
	case <-time.After(timePerItem * time.Duration(len(items))):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	results := make(map[*leasebroker.Item]*leasebroker.Result, len(items))
	for _, item := range items {
		result, err := d.result(item)
		if err != nil {
			return nil, err
		}
		results[item] = result
	}
	d.write("completing", items...)
	return results, nil
}

func (d *demo) result(item *leasebroker.Item) (*leasebroker.Result, error) {
	// SQLite stores a whole number as an integer, also in a column of type decimal.
	millimetres, err := strconv.ParseFloat(fmt.Sprint(item.Columns["Millimetres"]), 64)
	if err != nil {
		return nil, err
	}
	litres := millimetres * 1000
	row := leasebroker.Row{"event_id": item.Columns["Event_ID"], "worker": d.name, "litres": litres}
	return &leasebroker.Result{
		Columns:   leasebroker.Row{"Litres": litres},
		FollowUps: []leasebroker.FollowUp{{Queue: "outbox", Columns: row}},
	}, nil
}

func (d *demo) record(event leasebroker.Event) {
	if action, ok := actions[event.Name]; ok {
		d.write(action, event.Item)
	}
}

// write appends a line for each item by one write.
func (d *demo) write(action string, items ...*leasebroker.Item) {
	var lines []byte
	for _, item := range items {
		line, err := json.Marshal(map[string]string{"key": item.Key, "action": action})
		if err != nil {
			log.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	if _, err := d.journal.Write(lines); err != nil {
		log.Fatal(err)
	}
}
