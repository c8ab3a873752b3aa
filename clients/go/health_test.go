package leasebroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// warnings is a log that passes each record on as a text.
type warnings chan string

func (w warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (w warnings) WithAttrs([]slog.Attr) slog.Handler               { return w }
func (w warnings) WithGroup(string) slog.Handler                    { return w }
func (w warnings) Handle(_ context.Context, record slog.Record) error {
	text := record.Level.String() + " " + record.Message
	record.Attrs(func(attribute slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", attribute.Key, attribute.Value)
		return true
	})
	w <- text
	return nil
}

func (w warnings) next(t *testing.T) string {
	t.Helper()
	select {
	case text := <-w:
		return text
	case <-time.After(60 * time.Second):
		t.Fatal("no warning within 60 s")
		return ""
	}
}

// claims is a broker that answers each claim by a function, and tells the test how long the claim waits.
type claims struct {
	pb.UnimplementedLeaseServiceServer
	waits  chan time.Duration
	answer func(call int) error
	calls  int
}

func (c *claims) ClaimBatch(ctx context.Context, request *pb.ClaimBatchRequest) (*pb.ClaimBatchResponse, error) {
	c.calls++
	err := c.answer(c.calls)
	select {
	case c.waits <- request.GetWaitTimeout().AsDuration():
	case <-ctx.Done():
	}
	return &pb.ClaimBatchResponse{}, err
}

func (c *claims) ReleaseClaims(context.Context, *pb.ReleaseClaimsRequest) (*pb.ReleaseClaimsResponse, error) {
	return &pb.ReleaseClaimsResponse{}, nil
}

func (c *claims) serve(t *testing.T, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterLeaseServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
}

// startWorker starts a worker whose second warning comes after 100 ms. The test ends it.
func startWorker(t *testing.T, address string) warnings {
	t.Helper()
	log := make(warnings, 1_000)
	worker, err := NewWorker(address, "work",
		func(context.Context, *Item) (*Result, error) { return nil, nil }, Logger(slog.New(log)))
	if err != nil {
		t.Fatal(err)
	}
	worker.health.nextWarning = 100 * time.Millisecond
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Stop(0) })
	return log
}

// listen returns the address of a server that accepts connections and says nothing.
func listen(t *testing.T) (address string, closeListener func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String(), func() { _ = listener.Close() }
}

func TestOutageIsWarnedAboutUntilItsEnd(t *testing.T) {
	address, closeListener := listen(t)
	closeListener()
	begun := time.Now()
	log := startWorker(t, address)
	first := log.next(t)
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("warned after %s", took)
	}
	for strings.HasSuffix(first, " cause=no answer yet") {
		first = log.next(t) // On a busy machine the first attempt takes longer than the time before the first warning.
	}
	expected := regexp.MustCompile("^WARN calls to the broker fail address=" + address + " for=[0-9]+s cause=Unavailable: .*connection refused")
	for _, text := range []string{first, log.next(t)} {
		if !expected.MatchString(text) {
			t.Error(text)
		}
	}
	broker := &claims{waits: make(chan time.Duration, 1_000), answer: func(int) error { return nil }}
	broker.serve(t, address)
	text := log.next(t)
	for strings.HasPrefix(text, "WARN calls to the broker fail ") {
		text = log.next(t)
	}
	if !strings.HasPrefix(text, "WARN broker answers again address="+address+" after=") {
		t.Error(text)
	}
	select {
	case text := <-log:
		t.Error(text)
	case <-time.After(300 * time.Millisecond):
	}
}

func TestBrokerThatAcceptsAndIsSilentIsWarnedAbout(t *testing.T) {
	address, _ := listen(t)
	expected := regexp.MustCompile("^WARN calls to the broker fail address=" + address + " for=[0-9]+s cause=no answer yet$")
	if text := startWorker(t, address).next(t); !expected.MatchString(text) {
		t.Error(text)
	}
}

func TestClientWarnsWhileACallGetsNoAnswer(t *testing.T) {
	address, closeListener := listen(t)
	closeListener()
	log := make(warnings, 1_000)
	client, err := NewClient(address, Logger(slog.New(log)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.health.firstWarning, client.health.nextWarning = 20*time.Millisecond, 20*time.Millisecond
	wake := func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if client.Wake(ctx, "work") == nil {
			t.Error("Wake returns nil")
		}
	}
	for range 2 {
		wake()
		expected := "WARN calls to the broker fail address=" + address + " for="
		if text := log.next(t); !strings.HasPrefix(text, expected) || !strings.Contains(text, "connection refused") {
			t.Error(text)
		}
		time.Sleep(50 * time.Millisecond) // A warning may have waited for the lock when the call ended.
		for len(log) > 0 {
			<-log
		}
		time.Sleep(100 * time.Millisecond)
		log.expect(t) // No call runs.
	}
	client.health.note(nil)
	if text := log.next(t); !strings.HasPrefix(text, "WARN broker answers again address="+address+" after=") {
		t.Error(text)
	}
}

func TestErrorWithAReasonIsAnAnswer(t *testing.T) {
	log := make(warnings, 10)
	health := &connectionHealth{emit: func(Event) {}, logger: slog.New(log), firstWarning: 20 * time.Millisecond, nextWarning: time.Minute}
	health.note(&failure{code: codes.ResourceExhausted, reason: "OVERLOADED"})
	health.note(&failure{code: codes.Unavailable, reason: "STORE_UNAVAILABLE", message: "the database is away"})
	if text := log.next(t); !strings.HasSuffix(text, "cause=Unavailable (STORE_UNAVAILABLE): the database is away") {
		t.Error(text)
	}
	health.note(&failure{code: codes.InvalidArgument, reason: "INVALID_FIELD"})
	if text := log.next(t); !strings.HasPrefix(text, "WARN broker answers again") {
		t.Error(text)
	}
}

func TestWorkerThatHasLostItsLeasesKnowsTheirDuration(t *testing.T) {
	worker, err := NewWorker("127.0.0.1:1", "work", nothing)
	if err != nil {
		t.Fatal(err)
	}
	state, now := worker.state, time.Now()
	state.handle = func(*run) {}
	state.update(func() {
		state.accept([]*pb.Lease{{LeaseId: "a", Item: &pb.Item{}, TimeLeft: durationpb.New(10 * time.Second)}}, 0, now, now)
		state.lose(state.held["a"], "")
	})
	worker.health.failingSince = now.Add(-15 * time.Second)
	if worker.Health() {
		t.Error("the worker is healthy 15 s after an answer, with leases of 10 s")
	}
}

func TestClaimWaitsOnlyAfterAnAnswer(t *testing.T) {
	address, closeListener := listen(t)
	closeListener()
	broker := &claims{waits: make(chan time.Duration), answer: func(call int) error {
		if call == 3 {
			return status.Error(codes.Unavailable, "away")
		}
		return nil
	}}
	broker.serve(t, address)
	startWorker(t, address)
	var waits []time.Duration
	for range 5 {
		waits = append(waits, <-broker.waits)
	}
	// The fourth request is the third one, sent again.
	if long := 20 * time.Second; !slices.Equal(waits, []time.Duration{0, long, long, 0, long}) {
		t.Error(waits)
	}
}

func TestWorkerThatReachedNoBrokerHasNoClaimToRelease(t *testing.T) {
	address, closeListener := listen(t)
	closeListener()
	log, retried := make(warnings, 1_000), make(chan struct{}, 1_000)
	worker, err := NewWorker(address, "work", nothing, Logger(slog.New(log)), OnEvent(func(event Event) {
		if event.Name == EventRetry {
			retried <- struct{}{}
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	<-retried
	if err := worker.Stop(0); err != nil {
		t.Error(err)
	}
	close(log)
	for text := range log {
		if !strings.HasPrefix(text, "WARN calls to the broker fail") {
			t.Error(text)
		}
	}
}

func TestCallThatReachedNoBrokerIsNotApplied(t *testing.T) {
	address, closeListener := listen(t)
	closeListener()
	client, err := NewClient(address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = client.Enqueue(ctx, "work", []Row{{}})
	var failed *CallError
	if errors.As(err, &failed) && failed.Applied != appliedNo {
		t.Errorf("%+v", failed)
	}
}
