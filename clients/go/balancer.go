// Chooses the broker of each call: all brokers in turn, except those that have not answered lately.

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
	"google.golang.org/grpc/status"
)

const (
	balancerName = "lease_broker_in_turn"
	// passOver is the time for which a broker is passed over after a call that it has not answered. A broker that is frozen still has
	// its connections. If there is no other broker, it is called all the same.
	passOver = 30 * time.Second
)

func init() {
	balancer.Register(base.NewBalancerBuilder(balancerName, pickerBuilder{}, base.Config{HealthCheck: true}))
}

// silence knows the brokers that have not answered lately. The context of a call carries it to the picker.
type silence struct {
	mu    sync.Mutex
	until map[string]time.Time
}

type silenceKey struct{}

// context returns a context for a call.
func (s *silence) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, silenceKey{}, s)
}

func (s *silence) has(address string) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.until[address])
}

// note takes the end of a call.
func (s *silence) note(address string, done balancer.DoneInfo) {
	isSilent := status.Code(done.Err) == codes.DeadlineExceeded && !done.BytesReceived
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case isSilent && s.until == nil:
		s.until = map[string]time.Time{address: time.Now().Add(passOver)}
	case isSilent:
		s.until[address] = time.Now().Add(passOver)
	case done.BytesReceived:
		delete(s.until, address)
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
	silence, _ := info.Ctx.Value(silenceKey{}).(*silence)
	count := uint32(len(p.brokers))
	first := p.next.Add(1)
	chosen := p.brokers[first%count]
	for i := uint32(1); i < count && silence.has(chosen.address); i++ {
		chosen = p.brokers[(first+i)%count]
	}
	result := balancer.PickResult{SubConn: chosen.connection}
	if silence != nil {
		result.Done = func(done balancer.DoneInfo) { silence.note(chosen.address, done) }
	}
	return result, nil
}
