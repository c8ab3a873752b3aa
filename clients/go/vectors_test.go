package leasebroker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// vectorOptions and vectorStep are as ../vectors/README.md describes them.
type vectorOptions struct {
	Slots, Batch int
	Heartbeat    *bool
	TimeLimitMs  int64 `json:"time_limit_ms"`
	StuckAfterMs int64 `json:"stuck_after_ms"`
	MaxStuck     int   `json:"max_stuck"`
}

type vectorStep struct {
	AtMs              int64 `json:"at_ms"`
	Event             string
	Leases, Run, Next []string
	With, Text        string
	Lease, To         string
	Bytes             int
	TimeLeftMs        int64  `json:"time_left_ms"`
	SentMs            *int64 `json:"sent_ms"`
	WakesByMs         *int64 `json:"wakes_by_ms"`
	Outcomes          map[string]string
	Actions           []string
}

// sentCall is a settling call that has no answer yet.
type sentCall struct {
	group    []*ending
	slots    int
	attempts int
	sentAt   time.Time
}

// machine drives the state machine of a worker without goroutines, network or time.
type machine struct {
	start, now  time.Time
	state       *state
	keeper      *keeper
	settler     *settler
	pollSlots   int
	begun       bool
	beats       []*beat
	beatsSentAt []time.Time
	calls       map[string]*sentCall
	unclaimed   int
	leases      map[string]*heldLease
	running     []*run
	cancelled   map[*run]bool
	actions     []string
}

func newMachine(o vectorOptions) *machine {
	options, _ := newOptions("127.0.0.1:1", nil)
	options.queue, options.logger = "orders", slog.New(slog.DiscardHandler)
	options.concurrency, options.batch = max(o.Slots, 1), max(o.Batch, 1)
	options.heartbeat = o.Heartbeat == nil || *o.Heartbeat
	options.timeLimit, options.maxStuck = time.Duration(o.TimeLimitMs)*time.Millisecond, o.MaxStuck
	if o.StuckAfterMs > 0 {
		options.stuckAfter = time.Duration(o.StuckAfterMs) * time.Millisecond
	}
	if err := options.checkWorker(); err != nil {
		panic(err)
	}
	m := &machine{start: time.Unix(1_000_000, 0), calls: map[string]*sentCall{}, leases: map[string]*heldLease{}, cancelled: map[*run]bool{}}
	m.now = m.start
	m.state = newState(options, newEventLog("orders", m.report, options.logger))
	m.state.now = func() time.Time { return m.now }
	m.state.handle = func(run *run) {
		m.running = append(m.running, run)
		for _, lease := range run.leases {
			m.leases[lease.id] = lease
		}
		m.act("start " + names(run))
	}
	m.keeper = &keeper{state: m.state, caller: &caller{}}
	m.settler = &settler{state: m.state, caller: &caller{onRetry: func(retry) {}}}
	return m
}

func (m *machine) act(action string) { m.actions = append(m.actions, action) }

func (m *machine) report(event Event) {
	text := "report " + string(event.Name)
	if event.Name == EventHeartbeat {
		m.act(fmt.Sprintf("%s %d", text, event.Count))
		return
	}
	text += " " + event.Item.Key
	if event.Cause != "" {
		text += " " + event.Cause
	}
	detail := event.Reason
	if event.Name == EventFailed {
		detail = event.Error
	}
	if detail != "" {
		text += ": " + detail
	}
	m.act(text)
}

func names(run *run) string {
	var ids []string
	for _, lease := range run.leases {
		ids = append(ids, lease.id)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func (m *machine) messages(ids []string, timeLeftMs int64) []*pb.Lease {
	var messages []*pb.Lease
	for _, id := range ids {
		messages = append(messages, &pb.Lease{
			LeaseId: id, Item: &pb.Item{Key: id}, Attempt: 1,
			TimeLeft: durationpb.New(time.Duration(timeLeftMs) * time.Millisecond),
		})
	}
	return messages
}

// apply applies the event of a step.
func (m *machine) apply(step vectorStep) {
	state := m.state
	switch step.Event {
	case "begin":
		m.begun = true
	case "claimed":
		sentAt, slots := m.now, m.pollSlots
		if step.SentMs != nil {
			sentAt = m.start.Add(time.Duration(*step.SentMs) * time.Millisecond)
		}
		m.pollSlots = 0
		state.update(func() { state.accept(m.messages(step.Leases, step.TimeLeftMs), slots, sentAt, m.now) })
	case "returned":
		at := slices.IndexFunc(m.running, func(run *run) bool { return names(run) == strings.Join(step.Run, " ") })
		run := m.running[at]
		m.running = slices.Delete(m.running, at, at+1)
		endings := endingsOf(state, run, nil, handlerError(step, run.ctx))
		if step.With == "error" {
			endings = nil
			for _, lease := range run.leases {
				endings = append(endings, failed(lease, step.Text))
			}
		}
		state.update(func() { state.end(run, endings) })
	case "checkpoint":
		state.saveCheckpoint(m.leases[step.Lease], make([]byte, step.Bytes))
	case "answer", "failed", "resent":
		m.answer(step)
	case "stop":
		state.update(func() { state.takesItems = false })
	case "cancel":
		state.update(state.cancelHandlers)
	case "leave":
		state.update(func() { state.leaveHandlers() })
	case "time":
	default:
		panic("unknown event: " + step.Event)
	}
}

func handlerError(step vectorStep, ctx context.Context) error {
	switch step.With {
	case "result":
		return nil
	case "release":
		return Release()
	case "cancellation":
		return ctx.Err()
	case "dead_letter":
		_, text, _ := strings.Cut(step.Text, ": ")
		return DeadLetter(errors.New(text))
	default:
		return errors.New(step.Text)
	}
}

func (m *machine) answer(step vectorStep) {
	state := m.state
	if step.To == "heartbeat" {
		beat, sentAt := m.beats[0], m.beatsSentAt[0]
		m.beats, m.beatsSentAt = m.beats[1:], m.beatsSentAt[1:]
		if step.Event == "failed" {
			state.update(func() { m.keeper.noteFailure(beat, &failure{}) })
			return
		}
		response := &pb.HeartbeatResponse{}
		for _, lease := range beat.leases {
			outcome, detail, refusal := outcomeOf(step.Outcomes[lease.id])
			response.Results = append(response.Results, &pb.HeartbeatResult{
				Outcome: outcome, TimeLeft: durationpb.New(time.Duration(step.TimeLeftMs) * time.Millisecond),
				CancelReason: detail, Refusal: refusal,
			})
		}
		state.update(func() { m.keeper.note(beat, response, sentAt) })
		return
	}
	call := m.calls[step.To]
	if step.Event == "resent" {
		call.attempts++
		state.update(func() { m.settler.noteRetry(call.group) })
		return
	}
	delete(m.calls, step.To)
	var locked []*ending
	state.update(func() {
		if step.Event == "failed" {
			m.settler.noteNoAnswer(call.group, errors.New("no answer"))
			state.accept(nil, call.slots, m.now, m.now)
		} else {
			message := &pb.CompleteResponse{}
			for _, ending := range call.group {
				outcome, _, refusal := outcomeOf(step.Outcomes[ending.lease.id])
				message.Results = append(message.Results, &pb.SettleResult{Outcome: outcome, Refusal: refusal})
			}
			locked = m.settler.note(call.group, answer[settlement]{message: message, firstSentAt: call.sentAt, attempts: call.attempts})
			state.accept(m.messages(step.Next, step.TimeLeftMs), call.slots, m.now, m.now)
		}
		if len(m.calls) == 0 {
			state.settling = false
			state.returnSlots(m.unclaimed)
		}
	})
	m.settler.postpone(locked)
}

// outcomeOf reads an outcome, with its reason or its refusal.
func outcomeOf(text string) (outcome pb.Outcome, detail string, refusal *pb.Refusal) {
	name, detail, _ := strings.Cut(text, ": ")
	switch name {
	case "applied":
		return pb.Outcome_OUTCOME_APPLIED, "", nil
	case "lost":
		return pb.Outcome_OUTCOME_LEASE_LOST, detail, nil
	case "gone":
		return pb.Outcome_OUTCOME_GONE, "", nil
	case "refused":
		if before, after, found := strings.Cut(detail, ": "); found {
			return pb.Outcome_OUTCOME_REFUSED, "", &pb.Refusal{Field: before, Message: after}
		}
		return pb.Outcome_OUTCOME_REFUSED, "", &pb.Refusal{Message: detail}
	case "locked":
		return pb.Outcome_OUTCOME_REFUSED, "", &pb.Refusal{Reason: pb.RefusalReason_REFUSAL_REASON_LOCKED}
	default:
		panic("unknown outcome: " + text)
	}
}

// follow lets keeper, settler and poller act once. Returns the moment at which the keeper looks again.
func (m *machine) follow() time.Time {
	beats, wakeAt := m.keeper.look()
	for _, beat := range beats {
		m.beats, m.beatsSentAt = append(m.beats, beat), append(m.beatsSentAt, m.now)
		var ids []string
		for _, renewal := range beat.renewals {
			ids = append(ids, withCheckpoint(renewal.LeaseId, renewal.Checkpoint))
		}
		slices.Sort(ids)
		m.act("send heartbeat " + strings.Join(ids, " "))
	}
	m.state.requeueLocked(false)
	if len(m.calls) == 0 && len(m.state.endings) > 0 {
		parts, slots := m.settler.take()
		m.unclaimed = slots
		for i, part := range parts {
			m.send(part, i == 0)
		}
		if len(parts) == 0 {
			m.state.update(func() { m.state.settling = false; m.state.returnSlots(slots) })
		}
	}
	m.state.update(func() {
		if m.begun && m.pollSlots == 0 && m.state.mayClaim() {
			if m.pollSlots = m.state.reserveSlots(); m.pollSlots > 0 {
				m.act(fmt.Sprintf("claim %d", m.pollSlots*m.state.options.batch))
			}
		}
	})
	for _, run := range m.running {
		if run.ctx.Err() != nil && !m.cancelled[run] {
			m.cancelled[run] = true
			m.act("cancel " + names(run) + " " + run.cause)
		}
	}
	return wakeAt
}

// send sends a settling call. The first call of a group claims for the free slots, unless it releases.
func (m *machine) send(part []*ending, isFirst bool) {
	kind := strings.ToLower(part[0].rpc)
	var ids []string
	for _, ending := range part {
		ids = append(ids, withCheckpoint(ending.lease.id, ending.checkpoint))
	}
	slices.Sort(ids)
	action := "send " + kind + " " + strings.Join(ids, " ")
	call := &sentCall{group: part, attempts: 1, sentAt: m.now}
	if isFirst && kind != "release" && m.unclaimed > 0 {
		call.slots, m.unclaimed = m.unclaimed, 0
		action += fmt.Sprintf(", claim %d", call.slots*m.state.options.batch)
	}
	m.calls[kind] = call
	m.act(action)
}

func withCheckpoint(id string, checkpoint []byte) string {
	if len(checkpoint) > 0 {
		return fmt.Sprintf("%s+%d", id, len(checkpoint))
	}
	return id
}

func TestWorkerActsAsTheVectorsSay(t *testing.T) {
	text, err := os.ReadFile("../vectors/worker.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Cases []struct {
			Name    string
			Options vectorOptions
			Steps   []vectorStep
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, c := range vectors.Cases {
		t.Run(c.Name, func(t *testing.T) {
			m := newMachine(c.Options)
			for number, step := range c.Steps {
				m.now, m.actions = m.start.Add(time.Duration(step.AtMs)*time.Millisecond), nil
				m.apply(step)
				wakeAt := m.follow()
				slices.Sort(m.actions)
				slices.Sort(step.Actions)
				if !slices.Equal(m.actions, step.Actions) {
					t.Fatalf("step %d, %s at %d ms:\n got %q\nwant %q", number, step.Event, step.AtMs, m.actions, step.Actions)
				}
				if by := step.WakesByMs; by != nil && wakeAt.Sub(m.start) > time.Duration(*by)*time.Millisecond {
					t.Fatalf("step %d, %s at %d ms: looks again at %v", number, step.Event, step.AtMs, wakeAt.Sub(m.start))
				}
			}
		})
	}
}
