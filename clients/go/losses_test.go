package leasebroker

import (
	"context"
	"log/slog"
	"strings"
	"testing"
)

// losing returns a machine whose 12 slots have items, and its log.
func losing() (*machine, warnings) {
	m, log := newMachine(vectorOptions{Slots: 12}), make(warnings, 10)
	m.state.options.logger = slog.New(log)
	ids := strings.Split("abcdefghijkl", "")
	for _, step := range []vectorStep{{Event: "begin"}, {Event: "claimed", Leases: ids, TimeLeftMs: 30_000}} {
		m.apply(step)
		m.follow()
	}
	return m, log
}

func (w warnings) expect(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if text := w.next(t); text != line {
			t.Errorf("the log has\n%s, not\n%s", text, line)
		}
	}
	if len(w) > 0 {
		t.Errorf("the log also has %s", <-w)
	}
}

func TestLeasesThatAreLostTogetherAreLoggedInOneLine(t *testing.T) {
	m, log := losing()
	m.now = m.now.Add(maxWait)
	m.keeper.look()
	text := log.next(t)
	const want = "WARN lease lost: another worker may process the item queue=orders keys="
	if !strings.HasPrefix(text, want) || !strings.HasSuffix(text, "attempts=[1 1 1 1 1 1 1 1 1 1] others=2 reason=no heartbeat was answered in time") {
		t.Error(text)
	}
	log.expect(t)
}

func TestLeaseThatIsTakenAwayIsLogged(t *testing.T) {
	m, log := losing()
	m.apply(vectorStep{Event: "returned", Run: []string{"b"}, With: "result"})
	m.follow()
	m.now = m.now.Add(maxWait / 6)
	m.follow()
	outcomes := map[string]string{"a": "lost: moved"}
	for _, id := range strings.Split("cdefghijkl", "") {
		outcomes[id] = "applied"
	}
	m.apply(vectorStep{Event: "answer", To: "heartbeat", Outcomes: outcomes, TimeLeftMs: 30_000})
	log.expect(t, "WARN lease lost: another worker may process the item queue=orders keys=[a] attempts=[1] others=0 reason=moved")
	m.apply(vectorStep{Event: "answer", To: "complete", Outcomes: map[string]string{"b": "lost"}})
	log.expect(t, "WARN processed, but another worker may process it again queue=orders keys=[b] attempts=[1] others=0 "+
		"reason=the broker had ended the lease")
}

func TestReleasedItemIsNotLoggedAsProcessed(t *testing.T) {
	m, log := losing()
	for _, step := range []vectorStep{{Event: "returned", Run: []string{"a"}, With: "release"}, {Event: "failed", To: "release"}} {
		m.apply(step)
		m.follow()
	}
	log.expect(t, "WARN lease lost: another worker may process the item queue=orders keys=[a] attempts=[1] others=0 reason=no answer")
}

// lookingLog looks at the worker, as a logger can that calls Health.
type lookingLog struct {
	warnings
	state *state
}

func (l lookingLog) Handle(ctx context.Context, record slog.Record) error {
	l.state.read(func() {})
	return l.warnings.Handle(ctx, record)
}

func TestCheckpointThatIsTooLongIsLoggedWhileTheHandlerRuns(t *testing.T) {
	m, log := losing()
	m.state.options.logger = slog.New(lookingLog{log, m.state})
	save := vectorStep{Event: "checkpoint", Lease: "a", Bytes: maxCheckpointBytes + 1}
	m.apply(save)
	log.expect(t, "ERROR checkpoint is not stored, and none as long is sent for a minute queue=orders key=a bytes=65537 "+
		"error=a queue stores at most 65536 bytes")
	m.now = m.now.Add(2 * checkpointPause)
	m.apply(vectorStep{Event: "returned", Run: []string{"a"}, With: "result"})
	log.next(t)
	m.apply(save)
	log.expect(t)
}

func TestEndingWithoutAnAnswerIsLogged(t *testing.T) {
	m, log := losing()
	for _, step := range []vectorStep{
		{Event: "returned", Run: []string{"a"}, With: "result"}, {Event: "failed", To: "complete"},
		{Event: "returned", Run: []string{"b"}, With: "result"}, {Event: "answer", To: "complete", Outcomes: map[string]string{"b": "gone"}},
	} {
		m.apply(step)
		m.follow()
	}
	log.expect(t,
		"WARN processed, but another worker may process it again queue=orders keys=[a] attempts=[1] others=0 reason=no answer",
		"WARN processed, but another worker may process it again queue=orders keys=[b] attempts=[1] others=0 reason=the row is gone")
}
