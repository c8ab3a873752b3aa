// The worker program of the harness in clients/harness, which starts it, gives it commands as JSON lines on stdin, and reads
// its events as JSON lines from stdout.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"example.com/lease-broker/clients/go"
)

// command is a line of stdin.
type command struct {
	Cmd     string          `json:"cmd"`
	Options json.RawMessage `json:"options"`
	GraceMS *float64        `json:"grace_ms"`
}

// settings are the options of the command "start".
type settings struct {
	Address      addresses `json:"address"`
	Queue        string    `json:"queue"`
	WorkerID     string    `json:"worker_id"`
	Concurrency  int       `json:"concurrency"`
	Batch        int       `json:"batch"`
	LeaseMS      float64   `json:"lease_ms"`
	Heartbeat    *bool     `json:"heartbeat"`
	TimeLimitMS  float64   `json:"time_limit_ms"`
	WaitMS       *float64  `json:"wait_ms"`
	GraceMS      *float64  `json:"grace_ms"`
	StuckAfterMS float64   `json:"stuck_after_ms"`
	MaxStuck     int       `json:"max_stuck"`
	CAFile       string    `json:"ca_file"`
	CertFile     string    `json:"cert_file"`
	KeyFile      string    `json:"key_file"`
	Effects      string    `json:"effects"`
	Noop         bool      `json:"noop"`
	Raw          bool      `json:"raw"`
	Until        int64     `json:"until"`
}

// addresses is a string or a list of strings, as the library takes it.
type addresses string

func (a *addresses) UnmarshalJSON(text []byte) error {
	var list []string
	if err := json.Unmarshal(text, &list); err == nil {
		*a = addresses(strings.Join(list, ","))
		return nil
	}
	return json.Unmarshal(text, (*string)(a))
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		fail(errors.New("stdin has no command"))
	}
	var start command
	var given settings
	check(json.Unmarshal(lines.Bytes(), &start))
	check(json.Unmarshal(start.Options, &given))
	if given.Concurrency == 0 {
		given.Concurrency = 1
	}
	if given.Raw {
		check(runRaw(given))
		return
	}
	out := &journal{quiet: given.Noop, until: given.Until}
	worker, err := newWorker(given, out)
	check(err)
	out.ready()
	os.Exit(follow(worker, given, lines, out))
}

// follow obeys commands and signals until the worker has stopped. Returns the exit code.
func follow(worker *leasebroker.Worker, given settings, lines *bufio.Scanner, out *journal) int {
	ended := make(chan error, 1)
	stop := func(grace time.Duration) { ended <- worker.Stop(grace) }
	grace := 20 * time.Second
	if given.GraceMS != nil {
		grace = milliseconds(*given.GraceMS)
	}
	go func() {
		for lines.Scan() {
			var next command
			check(json.Unmarshal(lines.Bytes(), &next))
			switch next.Cmd {
			case "health":
				out.print(map[string]any{"ev": "health", "ok": worker.Health()})
			case "counters":
				out.print(map[string]any{"ev": "counters", "counters": worker.Counters()})
			case "stop":
				if next.GraceMS != nil {
					go stop(milliseconds(*next.GraceMS))
				} else {
					go stop(grace)
				}
			default:
				fail(fmt.Errorf("unknown command %q", next.Cmd))
			}
		}
		stop(grace)
	}()
	out.stop = func() { go stop(grace) }
	go func() { ended <- worker.Run(context.Background()) }()
	err := <-ended
	switch {
	case err == nil:
		return 0
	case errors.Is(err, leasebroker.ErrHandlersLeft):
		return 1
	default:
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
}

func newWorker(given settings, out *journal) (*leasebroker.Worker, error) {
	options := []leasebroker.Option{
		leasebroker.Concurrency(given.Concurrency),
		leasebroker.Lease(milliseconds(given.LeaseMS)),
		leasebroker.TimeLimit(milliseconds(given.TimeLimitMS)),
		leasebroker.OnEvent(out.event),
	}
	if given.WorkerID != "" {
		options = append(options, leasebroker.WorkerID(given.WorkerID))
	}
	if given.Heartbeat != nil {
		options = append(options, leasebroker.Heartbeat(*given.Heartbeat))
	}
	if given.WaitMS != nil {
		options = append(options, leasebroker.Wait(milliseconds(*given.WaitMS)))
	}
	if given.GraceMS != nil {
		options = append(options, leasebroker.Grace(milliseconds(*given.GraceMS)))
	}
	if given.StuckAfterMS != 0 {
		options = append(options, leasebroker.StuckAfter(milliseconds(given.StuckAfterMS)))
	}
	if given.MaxStuck != 0 {
		options = append(options, leasebroker.MaxStuck(given.MaxStuck))
	}
	if given.CAFile != "" {
		files := leasebroker.TLSFiles{CAFile: given.CAFile, CertFile: given.CertFile, KeyFile: given.KeyFile}
		options = append(options, leasebroker.Credentials(leasebroker.TLS(files)))
	}
	work := &work{effects: given.Effects, noop: given.Noop, out: out}
	if given.Batch > 0 {
		return leasebroker.NewBatchWorker(string(given.Address), given.Queue, given.Batch, work.batch, options...)
	}
	return leasebroker.NewWorker(string(given.Address), given.Queue, work.one, options...)
}

func milliseconds(count float64) time.Duration {
	return time.Duration(count * float64(time.Millisecond))
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}
