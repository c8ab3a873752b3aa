package leasebroker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"example.com/lease-broker/clients/go"
	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

func TestMissingCertificateFileIsAnError(t *testing.T) {
	files := leasebroker.TLSFiles{CertFile: "nowhere.pem", KeyFile: "nowhere.pem"}
	_, err := leasebroker.NewClient("broker.example:1", leasebroker.Credentials(leasebroker.TLS(files)))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("NewClient returns %v", err)
	}
}

// applied answers a settlement of one item.
func applied(context.Context, int, *pb.CompleteRequest) (*pb.CompleteResponse, error) {
	return &pb.CompleteResponse{Results: []*pb.SettleResult{{Outcome: pb.Outcome_OUTCOME_APPLIED}}}, nil
}

func TestErrorOfAHandlerIsLogged(t *testing.T) {
	broker := startScripted(t)
	broker.fail = func(int, *pb.Failure) *pb.SettleResult {
		return &pb.SettleResult{Outcome: pb.Outcome_OUTCOME_APPLIED}
	}
	var log lockedBuffer
	events := newWatcher(t)
	worker, err := leasebroker.NewWorker(broker.address, "work",
		func(context.Context, *item) (*result, error) { return nil, errors.New("no total") },
		events.option(), leasebroker.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	events.wait(leasebroker.EventFailed, 1)
	_ = worker.Stop(0)
	if text := log.text(); !strings.Contains(text, "no total") || !strings.Contains(text, "key=1") {
		t.Errorf("the log is %s", text)
	}
}

func TestRefusedCompletionIsLogged(t *testing.T) {
	broker := startScripted(t)
	broker.complete = func(context.Context, int, *pb.CompleteRequest) (*pb.CompleteResponse, error) {
		refusal := &pb.Refusal{Message: "12.5 is a float"}
		return &pb.CompleteResponse{Results: []*pb.SettleResult{{Outcome: pb.Outcome_OUTCOME_REFUSED, Refusal: refusal}}}, nil
	}
	broker.fail = func(int, *pb.Failure) *pb.SettleResult {
		return &pb.SettleResult{Outcome: pb.Outcome_OUTCOME_APPLIED}
	}
	var log lockedBuffer
	worker, events := broker.work(t, func(context.Context, *item) (*result, error) { return nil, nil },
		leasebroker.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	events.wait(leasebroker.EventFailed, 1)
	_ = worker.Stop(0)
	const want = `msg="ending refused" queue=work rpc=Complete key=1 attempt=1 error="12.5 is a float"`
	if text := log.text(); strings.Count(text, want) != 1 {
		t.Errorf("the log is %s", text)
	}
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(text)
}

func (b *lockedBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func TestFrozenBrokerIsPassedOver(t *testing.T) {
	frozen, healthy := startScripted(t), startScripted(t)
	thawed := make(chan struct{})
	t.Cleanup(func() { close(thawed) })
	// It does not even answer that the deadline has passed, as a broker that is frozen does not.
	var asked atomic.Bool
	frozen.wake = func(context.Context, int) error { asked.Store(true); <-thawed; return nil }
	healthy.wake = func(context.Context, int) error { return nil }
	client, err := leasebroker.NewClient(frozen.address + "," + healthy.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	// The brokers are called in turn, once both are connected.
	late := 0
	for calls := 0; calls < 40; {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if client.Wake(ctx, "work") != nil {
			late++
		}
		cancel()
		time.Sleep(10 * time.Millisecond)
		if asked.Load() {
			calls++
		}
	}
	if late > 1 {
		t.Errorf("%d of 40 calls were sent to the frozen broker", late)
	}
}

func TestBrokerThatAnswersUnavailableIsPassedOverForASecond(t *testing.T) {
	failing, healthy := startScripted(t), startScripted(t)
	var asked atomic.Bool
	failing.wake = func(context.Context, int) error {
		asked.Store(true)
		return withApplied(codes.Unavailable, "STORE_UNAVAILABLE", "no")
	}
	healthy.wake = func(context.Context, int) error { return nil }
	client, err := leasebroker.NewClient(failing.address + "," + healthy.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	begun := time.Now()
	// The brokers are called in turn, once both are connected.
	for calls := 0; calls < 40; {
		if err := client.Wake(context.Background(), "work"); err != nil {
			t.Fatal(err)
		}
		if asked.Load() {
			calls++
		}
	}
	// The first calls may be made before the healthy broker is connected.
	most := 5 + int(time.Since(begun).Seconds())
	if calls := failing.count("Wake") - 1; calls > most {
		t.Errorf("%d calls were sent to the failing broker", calls)
	}
}

func TestMiddlewareSurroundsTheHandler(t *testing.T) {
	broker := startScripted(t)
	broker.complete = applied
	var order []string
	named := func(name string) leasebroker.Middleware {
		return func(next leasebroker.BatchHandler) leasebroker.BatchHandler {
			return func(ctx context.Context, items []*leasebroker.Item) (map[*leasebroker.Item]*leasebroker.Result, error) {
				order = append(order, name+" "+items[0].Key)
				results, err := next(ctx, items)
				order = append(order, "after "+name)
				return results, err
			}
		}
	}
	events := newWatcher(t)
	worker, err := leasebroker.NewWorker(broker.address, "work",
		func(context.Context, *item) (*result, error) { order = append(order, "handler"); return nil, nil },
		events.option(), leasebroker.Use(named("outer"), named("inner")))
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	events.wait(leasebroker.EventCompleted, 1)
	_ = worker.Stop(0)
	if text := strings.Join(order, ", "); text != "outer 1, inner 1, handler, after inner, after outer" {
		t.Errorf("the order is %s", text)
	}
}

func TestLaterStopCancelsHandlers(t *testing.T) {
	for name, hurry := range map[string]func(*leasebroker.Worker){
		"RequestStop": func(worker *leasebroker.Worker) { worker.RequestStop(time.Hour) },
		"Stop":        func(worker *leasebroker.Worker) { _ = worker.Stop(10 * time.Millisecond) },
	} {
		broker := startScripted(t)
		cause := make(chan error, 1)
		worker, events := broker.work(t, func(ctx context.Context, _ *item) (*result, error) {
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil, leasebroker.DeadLetter(errors.New("no"))
		})
		broker.fail = func(int, *pb.Failure) *pb.SettleResult {
			return &pb.SettleResult{Outcome: pb.Outcome_OUTCOME_APPLIED}
		}
		events.wait(leasebroker.EventStarted, 1)
		worker.RequestStop(time.Hour)
		hurry(worker)
		select {
		case err := <-cause:
			if !errors.Is(err, leasebroker.ErrShutdown) {
				t.Errorf("%s: the cause is %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: the handler still runs", name)
		}
	}
}

func TestRunKeepsTheGraceOfARequestedStop(t *testing.T) {
	broker := startScripted(t)
	broker.complete = applied
	var worker *leasebroker.Worker
	worker, err := leasebroker.NewWorker(broker.address, "work", func(ctx context.Context, _ *item) (*result, error) {
		worker.RequestStop(time.Hour)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(500 * time.Millisecond):
			return nil, nil
		}
	}, leasebroker.Grace(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Run(t.Context()); err != nil || worker.Counters()[leasebroker.EventCompleted] != 1 {
		t.Errorf("%v, %v", err, worker.Counters())
	}
}

// countingListener counts the connections that it accepts.
type countingListener struct {
	net.Listener
	mu       sync.Mutex
	accepted int
}

func (l *countingListener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted++
	return connection, err
}

func (l *countingListener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted
}

func TestWorkersShareConnections(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := &countingListener{Listener: inner}
	broker := &queuesBroker{}
	server := grpc.NewServer()
	pb.RegisterLeaseServiceServer(server, broker)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	connection, err := leasebroker.Connect(inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	events := newWatcher(t)
	var workers []*leasebroker.Worker
	for _, queue := range []string{"orders", "mails", "bills"} {
		worker, err := connection.NewWorker(queue, func(context.Context, *item) (*result, error) { return nil, nil }, events.option())
		if err != nil {
			t.Fatal(err)
		}
		workers = append(workers, worker)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- leasebroker.RunAll(ctx, workers...) }()
	events.wait(leasebroker.EventCompleted, 3)
	// No call waits for the one for heartbeats.
	for limit := time.Now().Add(time.Minute); listener.count() < 2 && time.Now().Before(limit); {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if accepted := listener.count(); accepted != 2 {
		t.Errorf("three workers have %d connections", accepted)
	}
}

func lease(id string) *pb.Lease {
	return &pb.Lease{
		LeaseId: id, Item: &pb.Item{Key: id}, Attempt: 1, FencingToken: 1, TimeLeft: durationpb.New(10 * time.Second),
	}
}

// queuesBroker gives one lease in each queue.
type queuesBroker struct {
	pb.UnimplementedLeaseServiceServer
	served sync.Map
}

func (b *queuesBroker) ClaimBatch(ctx context.Context, request *pb.ClaimBatchRequest) (*pb.ClaimBatchResponse, error) {
	if _, served := b.served.LoadOrStore(request.Queue, true); served {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &pb.ClaimBatchResponse{Leases: []*pb.Lease{lease(request.Queue)}}, nil
}

func (b *queuesBroker) Complete(context.Context, *pb.CompleteRequest) (*pb.CompleteResponse, error) {
	return applied(context.Background(), 1, nil)
}

func (b *queuesBroker) ReleaseClaims(context.Context, *pb.ReleaseClaimsRequest) (*pb.ReleaseClaimsResponse, error) {
	return &pb.ReleaseClaimsResponse{}, nil
}
