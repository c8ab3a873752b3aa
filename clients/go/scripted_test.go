package leasebroker_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"example.com/lease-broker/clients/go"
	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// scriptedBroker answers Wake and Complete as its functions say. Its first claim gets one lease.
type scriptedBroker struct {
	pb.UnimplementedLeaseBrokerServiceServer
	address string

	mu       sync.Mutex
	wake     func(ctx context.Context, call int) error
	complete func(ctx context.Context, call int, request *pb.CompleteRequest) (*pb.CompleteResponse, error)
	calls    map[string]int
}

func (s *scriptedBroker) count(rpc string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[rpc]++
	return s.calls[rpc]
}

func (s *scriptedBroker) Wake(ctx context.Context, _ *pb.WakeRequest) (*pb.WakeResponse, error) {
	return &pb.WakeResponse{}, s.wake(ctx, s.count("Wake"))
}

func (s *scriptedBroker) ClaimBatch(ctx context.Context, _ *pb.ClaimBatchRequest) (*pb.ClaimBatchResponse, error) {
	if s.count("ClaimBatch") == 1 {
		lease := &pb.Lease{
			LeaseId: "lease-1", Item: &pb.Item{Key: "1"}, Attempt: 1, FencingToken: 1, TimeLeft: durationpb.New(10 * time.Second),
		}
		return &pb.ClaimBatchResponse{Leases: []*pb.Lease{lease}}, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s *scriptedBroker) Complete(ctx context.Context, request *pb.CompleteRequest) (*pb.CompleteResponse, error) {
	return s.complete(ctx, s.count("Complete"), request)
}

func (s *scriptedBroker) Release(context.Context, *pb.ReleaseRequest) (*pb.ReleaseResponse, error) {
	return &pb.ReleaseResponse{}, nil
}

func startScripted(t *testing.T, options ...grpc.ServerOption) *scriptedBroker {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	broker := &scriptedBroker{address: listener.Addr().String(), calls: map[string]int{}}
	server := grpc.NewServer(options...)
	pb.RegisterLeaseBrokerServiceServer(server, broker)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return broker
}

func (s *scriptedBroker) client(t *testing.T, options ...leasebroker.Option) *leasebroker.Client {
	client, err := leasebroker.NewClient(s.address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func pushback(ctx context.Context, milliseconds string) {
	_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", milliseconds))
}

func TestRetryWaitsForThePushback(t *testing.T) {
	broker := startScripted(t)
	broker.wake = func(ctx context.Context, call int) error {
		if call == 1 {
			pushback(ctx, "300")
			return status.Error(codes.Unavailable, "away")
		}
		return nil
	}
	begun := time.Now()
	if err := broker.client(t).Wake(context.Background(), "work"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < 300*time.Millisecond || broker.calls["Wake"] != 2 {
		t.Errorf("%d calls in %s", broker.calls["Wake"], took)
	}
}

func TestNegativePushbackEndsTheCall(t *testing.T) {
	broker := startScripted(t)
	broker.wake = func(ctx context.Context, _ int) error {
		pushback(ctx, "-1")
		return status.Error(codes.Unavailable, "away")
	}
	if err := broker.client(t).Wake(context.Background(), "work"); err == nil || broker.calls["Wake"] != 1 {
		t.Errorf("%d calls, %v", broker.calls["Wake"], err)
	}
}

func TestErrorsThatAreNotRetried(t *testing.T) {
	for _, code := range []codes.Code{codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.PermissionDenied, codes.ResourceExhausted} {
		broker := startScripted(t)
		broker.wake = func(context.Context, int) error { return status.Error(code, "no") }
		var refused *leasebroker.CallError
		err := broker.client(t).Wake(context.Background(), "work")
		if !errors.As(err, &refused) || refused.Code != code || broker.calls["Wake"] != 1 {
			t.Errorf("%s: %d calls, %v", code, broker.calls["Wake"], err)
		}
	}
}

// completeOnce runs a worker until the item of the scripted broker has ended.
func completeOnce(t *testing.T, broker *scriptedBroker) *watcher {
	events := newWatcher(t)
	worker, err := leasebroker.NewWorker(broker.address, "work",
		func(context.Context, *item) (*result, error) { return nil, nil }, events.option())
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	for events.counts[leasebroker.EventCompleted]+events.counts[leasebroker.EventUnknown] == 0 {
		events.take(<-events.events)
	}
	if err := worker.Stop(0); err != nil {
		t.Fatal(err)
	}
	return events
}

func gone(request *pb.CompleteRequest) *pb.CompleteResponse {
	return &pb.CompleteResponse{Results: []*pb.SettleResult{{LeaseId: request.Completions[0].LeaseId, Outcome: pb.Outcome_OUTCOME_GONE}}}
}

func TestRowThatIsGoneAfterARetryWasCompleted(t *testing.T) {
	broker := startScripted(t)
	var ids []string
	broker.complete = func(_ context.Context, call int, request *pb.CompleteRequest) (*pb.CompleteResponse, error) {
		ids = append(ids, request.GetNext().GetRequestId())
		if call == 1 {
			return nil, status.Error(codes.Unavailable, "the response was lost")
		}
		return gone(request), nil
	}
	events := completeOnce(t, broker)
	if events.counts[leasebroker.EventCompleted] != 1 || events.counts[leasebroker.EventRetry] != 1 {
		t.Errorf("the events are %v", events.counts)
	}
	if len(ids) != 2 || ids[0] == "" || ids[0] != ids[1] {
		t.Errorf("the request ids are %v", ids)
	}
}

func TestRowThatIsGoneAtFirstIsUnknown(t *testing.T) {
	broker := startScripted(t)
	broker.complete = func(_ context.Context, _ int, request *pb.CompleteRequest) (*pb.CompleteResponse, error) {
		return gone(request), nil
	}
	if events := completeOnce(t, broker); events.counts[leasebroker.EventUnknown] != 1 {
		t.Errorf("the events are %v", events.counts)
	}
}

// checkToken returns an error unless the call has the token.
func checkToken(ctx context.Context, token string) error {
	headers, _ := metadata.FromIncomingContext(ctx)
	if values := headers.Get("authorization"); len(values) == 1 && values[0] == "Bearer "+token {
		return nil
	}
	return status.Error(codes.Unauthenticated, "unknown token")
}

func TestRefusedTokenIsReadAgainOnce(t *testing.T) {
	broker := startScripted(t)
	path := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	valid := "old"
	broker.wake = func(ctx context.Context, _ int) error { return checkToken(ctx, valid) }
	client := broker.client(t, leasebroker.Token(leasebroker.TokenFile(path)))
	if err := client.Wake(context.Background(), "work"); err != nil {
		t.Fatal(err)
	}
	valid = "new"
	write("new")
	if err := client.Wake(context.Background(), "work"); err != nil || broker.calls["Wake"] != 3 {
		t.Errorf("%d calls, %v", broker.calls["Wake"], err)
	}
	valid = "another"
	if err := client.Wake(context.Background(), "work"); err == nil || broker.calls["Wake"] != 5 {
		t.Errorf("%d calls, %v", broker.calls["Wake"], err)
	}
}

func TestRefusedTokenEndsTheWorker(t *testing.T) {
	refuse := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if err := checkToken(ctx, "valid"); err != nil {
			return nil, err
		}
		return handle(ctx, request)
	}
	broker := startScripted(t, grpc.UnaryInterceptor(refuse))
	worker, err := leasebroker.NewWorker(broker.address, "work",
		func(context.Context, *item) (*result, error) { return nil, nil }, leasebroker.Token(leasebroker.TokenText("wrong")))
	if err != nil {
		t.Fatal(err)
	}
	var refused *leasebroker.CallError
	if err := worker.Run(context.Background()); !errors.As(err, &refused) || refused.Code != codes.Unauthenticated {
		t.Errorf("Run returns %v", err)
	}
}

// authority signs certificates for a test.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.certificate = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, a.certificate, a.certificate, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign returns a certificate for a name, and its key.
func (a *authority) sign(name string) (certificate, privateKey []byte) {
	key := newKey(a.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

func TestTLSWithCertificatesAndToken(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.sign("broker.example")
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(a.pem)
	broker := startScripted(t, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	broker.wake = func(ctx context.Context, _ int) error { return checkToken(ctx, "secret") }
	clientCert, clientKey := a.sign("worker")
	files := leasebroker.TLSFiles{CA: a.pem, Cert: clientCert, Key: clientKey, ServerName: "broker.example"}
	token := leasebroker.Token(leasebroker.TokenText("secret"))
	if err := broker.client(t, leasebroker.Credentials(leasebroker.TLS(files)), token).Wake(context.Background(), "work"); err != nil {
		t.Fatal(err)
	}

	// Each of these is refused by one of the two sides.
	withoutName, withoutCert, otherCA := files, files, files
	withoutName.ServerName = ""
	withoutCert.Cert, withoutCert.Key = nil, nil
	otherCA.CA = newAuthority(t).pem
	for name, files := range map[string]leasebroker.TLSFiles{"name": withoutName, "certificate": withoutCert, "authority": otherCA} {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		if err := broker.client(t, leasebroker.Credentials(leasebroker.TLS(files)), token).Wake(ctx, "work"); err == nil {
			t.Errorf("a connection with the wrong %s was accepted", name)
		}
		cancel()
	}
	if broker.calls["Wake"] != 1 {
		t.Errorf("%d calls have arrived", broker.calls["Wake"])
	}
}

func TestMalformedCertificatesAreRefused(t *testing.T) {
	for _, files := range []leasebroker.TLSFiles{{CA: []byte("no PEM")}, {Cert: []byte("no PEM")}} {
		if _, err := leasebroker.NewClient("broker.example:1", leasebroker.Credentials(leasebroker.TLS(files))); err == nil {
			t.Error("malformed files were accepted")
		}
	}
}
