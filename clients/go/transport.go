// A connection to one broker or to several.

package leasebroker

import (
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	_ "google.golang.org/grpc/health" // The client side of health checks.
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// Version is the version of this library.
const Version = "0.2.0"

const (
	inTurn = `{"loadBalancingConfig": [{"` + balancerName + `": {}}]}`
	// A broker that drains says so by its health, and calls go to another. With a single address there is no other. If a
	// load balancer is behind it, the health of one broker says nothing about the next.
	inTurnIfHealthy = `{"loadBalancingConfig": [{"` + balancerName + `": {}}],
		"healthCheckConfig": {"serviceName": "leasebroker.v1.LeaseService"}}`
)

type transport struct {
	connection *grpc.ClientConn
	client     pb.LeaseServiceClient
}

// newTransport makes a connection. It connects with the first call.
func newTransport(o *options) (*transport, error) {
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(o.credentials.transportCredentials()),
		// calls.go sends requests again.
		grpc.WithDisableRetry(),
		// With the default, which grows to 120 s, an idle worker returns minutes after the broker.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// Finds a connection that is dead at one end while a claim waits.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		// The broker bounds its responses, but one row may be larger than the default.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithUserAgent("lease-broker-go/" + Version),
		grpc.WithDisableServiceConfig(),
	}
	target, config := o.addresses[0], inTurn
	if len(o.addresses) > 1 {
		config = inTurnIfHealthy
		brokers := manual.NewBuilderWithScheme("lease-broker")
		brokers.InitialState(resolver.State{Addresses: brokerAddresses(o.addresses)})
		target = "lease-broker:///" + o.addresses[0]
		dial = append(dial, grpc.WithResolvers(brokers))
	} else if strings.HasPrefix(target, "dns:") {
		config = inTurnIfHealthy
	}
	connection, err := grpc.NewClient(target, append(dial, grpc.WithDefaultServiceConfig(config))...)
	if err != nil {
		return nil, fmt.Errorf("address %s: %w", target, err)
	}
	return &transport{connection: connection, client: pb.NewLeaseServiceClient(connection)}, nil
}

func brokerAddresses(addresses []string) []resolver.Address {
	all := make([]resolver.Address, 0, len(addresses))
	for _, address := range addresses {
		host, _, _ := net.SplitHostPort(address)
		// ServerName is the name that the certificate of this broker must have.
		all = append(all, resolver.Address{Addr: address, ServerName: host})
	}
	return all
}

func (t *transport) close() { _ = t.connection.Close() }
