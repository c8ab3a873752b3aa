package leasebroker_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.com/lease-broker/clients/go"
)

const configuration = `
[store]
path = "queues.db"
[server]
listen = "127.0.0.1:0"
[admin]
listen = ""
[queues.work]
managed_columns = { payload = "text", amount = "integer", note = "text" }
writable = ["note"]
checkpoint = true
max_attempts = 3
# Longer than a test, so that a failed item does not come back.
backoff = { initial = "10m", factor = 2.0, max = "1h", jitter = 0.2 }
[queues.next]
managed_columns = { number = "integer not null" }
[queues.daily]
managed_columns = { note = "text" }
writable = ["note"]
on_complete = { recur = "10ms" }
`

// shortLease is the duration of a lease that a test outlives. Its heartbeats can be late by more than 3 s, as on a busy machine.
const shortLease = 6 * time.Second

// broker is a process with its own database.
type broker struct {
	t       *testing.T
	folder  string
	binary  string
	address string
	process *exec.Cmd
}

// newBroker starts a broker. The environment variable LEASE_BROKER is the path of its binary.
func newBroker(t *testing.T) *broker {
	binary := os.Getenv("LEASE_BROKER")
	if binary == "" {
		t.Skip("skipped: LEASE_BROKER is not the path of a broker")
	}
	b := &broker{t: t, folder: t.TempDir(), binary: binary}
	if err := os.WriteFile(filepath.Join(b.folder, "queues.toml"), []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	b.start()
	t.Cleanup(func() { b.kill() })
	return b
}

func (b *broker) start() {
	b.process = exec.Command(b.binary, "serve", "--config", "queues.toml")
	b.process.Dir = b.folder
	stdout, err := b.process.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	var log bytes.Buffer
	b.process.Stderr = &log
	if err := b.process.Start(); err != nil {
		b.t.Fatal(err)
	}
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	found := regexp.MustCompile(`listens on ([^ ,]+)`).FindStringSubmatch(line)
	if found == nil {
		b.kill()
		b.t.Fatalf("the broker has not started: %s%s", line, log.String())
	}
	b.address = found[1]
}

func (b *broker) kill() {
	_ = b.process.Process.Kill()
	_ = b.process.Wait()
}

// row is an item as the command `list` prints it.
type row struct {
	Key   string
	Error string
}

// rows returns the items of a queue in a state.
func (b *broker) rows(queue, state string) []row {
	b.t.Helper()
	list := exec.Command(b.binary, "list", queue, "--state", state, "--limit", "1000", "--output", "json", "--config", "queues.toml")
	list.Dir = b.folder
	output, err := list.Output()
	if err != nil {
		b.t.Fatal(err)
	}
	var rows []row
	for _, line := range strings.Split(strings.TrimSpace(string(output)), "\n") {
		if line == "" {
			continue
		}
		var next row
		if err := json.Unmarshal([]byte(line), &next); err != nil {
			b.t.Fatal(err)
		}
		rows = append(rows, next)
	}
	return rows
}

// expect fails the test unless the queue "work" has these numbers of items.
func (b *broker) expect(counts map[string]int) {
	b.t.Helper()
	for _, state := range []string{"ready", "leased", "delayed", "completed", "dead"} {
		if found := len(b.rows("work", state)); found != counts[state] {
			b.t.Errorf("%d items are %s, not %d", found, state, counts[state])
		}
	}
}

func (b *broker) enqueue(queue string, rows ...leasebroker.Row) []string {
	b.t.Helper()
	client := b.client()
	keys, err := client.Enqueue(context.Background(), queue, rows)
	if err != nil {
		b.t.Fatal(err)
	}
	return keys
}

// cancel takes the lease of an item of the queue "work" away from its worker.
func (b *broker) cancel(key, reason string) error {
	cancel := exec.Command(b.binary, "cancel", "work", key, "--reason", reason, "--address", "http://"+b.address)
	if output, err := cancel.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

func (b *broker) client() *leasebroker.Client {
	b.t.Helper()
	client, err := leasebroker.NewClient(b.address)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(client.Close)
	return client
}

// payloads returns rows whose payload is a number.
func payloads(count int) []leasebroker.Row {
	rows := make([]leasebroker.Row, count)
	for i := range rows {
		rows[i] = leasebroker.Row{"payload": "x", "amount": i}
	}
	return rows
}

// watcher counts events and lets tests wait for them.
type watcher struct {
	t      *testing.T
	events chan leasebroker.Event
	counts map[leasebroker.EventName]int
	all    []leasebroker.Event
}

func newWatcher(t *testing.T) *watcher {
	return &watcher{t: t, events: make(chan leasebroker.Event, 100_000), counts: map[leasebroker.EventName]int{}}
}

func (w *watcher) option() leasebroker.Option {
	return leasebroker.OnEvent(func(event leasebroker.Event) { w.events <- event })
}

// wait waits until an event has happened `count` times.
func (w *watcher) wait(name leasebroker.EventName, count int) {
	w.t.Helper()
	timeout := time.After(60 * time.Second)
	for w.counts[name] < count {
		select {
		case event := <-w.events:
			w.take(event)
		case <-timeout:
			w.t.Fatalf("after 60 s the events are %v; waiting for %d %s", w.counts, count, name)
		}
	}
}

// settle takes the events that have happened.
func (w *watcher) settle() {
	for {
		select {
		case event := <-w.events:
			w.take(event)
		default:
			return
		}
	}
}

func (w *watcher) take(event leasebroker.Event) {
	w.counts[event.Name]++
	w.all = append(w.all, event)
}

// find returns the first event of a name.
func (w *watcher) find(name leasebroker.EventName) leasebroker.Event {
	w.t.Helper()
	for _, event := range w.all {
		if event.Name == name {
			return event
		}
	}
	w.t.Fatalf("there was no event %s", name)
	return leasebroker.Event{}
}

// work starts a worker of the queue "work". The test ends it.
func (b *broker) work(handler leasebroker.Handler, options ...leasebroker.Option) (*leasebroker.Worker, *watcher) {
	b.t.Helper()
	return b.workOn("work", handler, options...)
}

func (b *broker) workOn(queue string, handler leasebroker.Handler, options ...leasebroker.Option) (*leasebroker.Worker, *watcher) {
	b.t.Helper()
	events := newWatcher(b.t)
	worker, err := leasebroker.NewWorker(b.address, queue, handler, append(options, events.option())...)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = worker.Stop(0) })
	return worker, events
}
