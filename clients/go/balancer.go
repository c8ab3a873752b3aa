// Chooses the broker of each call: all brokers in turn, except those whose calls have failed lately.

package leasebroker

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
)

const (
	balancerName = "lease_broker_in_turn"
	// passOver is the time for which a broker is passed over after a call that has failed. If there is no other broker, it is called
	// all the same.
	passOver = time.Second
	// passOverSilent is that time if the broker has not answered. A broker that is frozen still has its connections.
	passOverSilent = 30 * time.Second
)

func init() {
	balancer.Register(base.NewBalancerBuilder(balancerName, pickerBuilder{}, base.Config{HealthCheck: true}))
}

// outages knows the brokers whose calls have failed lately. The context of a call carries it to the picker.
type outages struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// route is what an attempt tells the picker, and what it learns. The context of the attempt carries it.
type route struct {
	outages *outages
	// picked is true if the attempt got a broker. Otherwise it was not sent, because no broker is connected.
	picked atomic.Bool
}

type routeKey struct{}

// context returns a context for an attempt.
func (r *route) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, routeKey{}, r)
}

func (o *outages) has(address string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Now().Before(o.until[address])
}

// note takes the end of a call.
func (o *outages) note(address string, done balancer.DoneInfo) {
	length := outageAfter(done)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case length > 0 && o.until == nil:
		o.until = map[string]time.Time{address: time.Now().Add(length)}
	case length > 0:
		o.until[address] = time.Now().Add(length)
	case done.BytesReceived:
		delete(o.until, address)
	}
}

// outageAfter returns the time for which the broker of a call is passed over. 0: it is not.
func outageAfter(done balancer.DoneInfo) time.Duration {
	if done.Err == nil {
		return 0
	}
	failure := readFailure(done.Err, done.Trailer)
	switch {
	case failure.code == codes.Canceled:
		// This program has ended the call.
		return 0
	case failure.code == codes.DeadlineExceeded && !done.BytesReceived:
		return passOverSilent
	case failure.code == codes.Unavailable || failure.reason == "" && failure.mayPass():
		return passOver
	default:
		return 0
	}
}

type pickerBuilder struct{}

// picker picks among the brokers that are connected.
type picker struct {
	brokers []broker
	next    atomic.Uint32
}

type broker struct {
	connection balancer.SubConn
	address    string
}

func (pickerBuilder) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	p := &picker{}
	for connection, info := range info.ReadySCs {
		p.brokers = append(p.brokers, broker{connection, info.Address.Addr})
	}
	p.next.Store(rand.Uint32())
	return p
}

func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	route := info.Ctx.Value(routeKey{}).(*route)
	outages := route.outages
	count := uint32(len(p.brokers))
	first := p.next.Add(1)
	chosen := p.brokers[first%count]
	for i := uint32(1); i < count && outages.has(chosen.address); i++ {
		chosen = p.brokers[(first+i)%count]
	}
	route.picked.Store(true)
	return balancer.PickResult{
		SubConn: chosen.connection,
		Done:    func(done balancer.DoneInfo) { outages.note(chosen.address, done) },
	}, nil
}
