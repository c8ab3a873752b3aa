package leasebroker_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"example.com/lease-broker/clients/go"
	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// startBehindProxy starts a scripted broker behind a proxy that refuses larger requests, as nginx does.
func startBehindProxy(t *testing.T, maxBytes int64) *scriptedBroker {
	broker := newScripted()
	calls := grpc.NewServer()
	pb.RegisterLeaseServiceServer(calls, broker)
	limit := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBytes+1))
		if err != nil || int64(len(body)) > maxBytes {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		calls.ServeHTTP(w, r)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	broker.address = listener.Addr().String()
	proxy := &http.Server{Handler: http.HandlerFunc(limit), Protocols: new(http.Protocols)}
	proxy.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = proxy.Serve(listener) }()
	t.Cleanup(func() { _ = proxy.Close() })
	return broker
}

func TestSettlementThatAProxyFindsTooLargeFailsItsItem(t *testing.T) {
	broker := startBehindProxy(t, 5_000)
	broker.fail = func(int, *pb.Failure) *pb.SettleResult {
		return &pb.SettleResult{Outcome: pb.Outcome_OUTCOME_APPLIED}
	}
	handler := func(context.Context, *item) (*result, error) {
		return &result{Columns: leasebroker.Row{"Text": strings.Repeat("x", 10_000)}}, nil
	}
	_, events := broker.work(t, handler)
	events.wait(leasebroker.EventFailed, 1)
	if event := events.find(leasebroker.EventFailed); !strings.HasPrefix(event.Error, "Refused: ") || !strings.Contains(event.Error, "413") {
		t.Errorf("%+v", event)
	}
	if events.counts[leasebroker.EventRetry] != 0 {
		t.Errorf("the events are %v", events.counts)
	}
}
