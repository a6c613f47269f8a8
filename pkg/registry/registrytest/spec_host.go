package registrytest

import (
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// onHost judges the calls that are about replicas and time. They are never lost in a
// history: each host speaks for itself, in order.
func (s spec) onHost(b belief, c call, a answer) ([]belief, string) {
	switch c.verb {
	case passVerb:
		b.now = b.now.Add(c.pass)
		return one(b)
	case expireVerb:
		return s.expire(b, a)
	case registerVerb:
		return s.register(b, c, a)
	case beatVerb:
		return s.beat(b, c, a)
	case intendVerb:
		return s.intend(b, c, a)
	}
	return s.leave(b, c, a)
}

func (s spec) register(b belief, c call, a answer) ([]belief, string) {
	if a.err != nil {
		return wrong("register: %v", a.err)
	}
	if a.lease.Epoch != b.hosts[c.host].epoch+1 {
		return wrong("a registration got epoch %d after %d", a.lease.Epoch, b.hosts[c.host].epoch)
	}
	return one(b.withHost(c.host, func(h *host) {
		h.epoch++
		h.status, h.healthy, h.until = fleet.ReplicaReady, true, b.now.Add(leaseTTL)
		if h.intent == fleet.IntentDrain {
			h.status = fleet.ReplicaDraining
		}
	}))
}

func (s spec) beat(b belief, c call, a answer) ([]belief, string) {
	if !b.hosts[c.host].alive(b.now) {
		return s.lostLease(b, a)
	}
	if a.err != nil {
		return wrong("beat: %v", a.err)
	}
	after := b.withHost(c.host, func(h *host) {
		h.until, h.healthy = b.now.Add(leaseTTL), true
		if h.intent == fleet.IntentDrain {
			h.status = fleet.ReplicaDraining
		}
	})
	if a.lease.Status != after.hosts[c.host].status {
		return wrong("a beat was answered %s, the replica is %s", a.lease.Status, after.hosts[c.host].status)
	}
	return one(after)
}

func (s spec) lostLease(b belief, a answer) ([]belief, string) {
	if !fleet.Is(a.err, fleet.LeaseLost) {
		return wrong("a dead lease was answered %s", a)
	}
	return one(b)
}

func (s spec) intend(b belief, c call, a answer) ([]belief, string) {
	if a.err != nil {
		return wrong("intend: %v", a.err)
	}
	return one(b.withHost(c.host, func(h *host) {
		h.intent = c.want
		if c.want == fleet.IntentRun && h.status == fleet.ReplicaDraining {
			h.healthy, h.status = false, fleet.ReplicaReady
		}
	}))
}

func (s spec) leave(b belief, c call, a answer) ([]belief, string) {
	if !b.hosts[c.host].alive(b.now) {
		return s.lostLease(b, a)
	}
	if a.err != nil {
		return wrong("leave: %v", a.err)
	}
	return one(b.withHost(c.host, func(h *host) {
		h.status = fleet.ReplicaDraining
		if c.offline {
			h.status = fleet.ReplicaOffline
		}
	}))
}

func (s spec) expire(b belief, a answer) ([]belief, string) {
	if a.err != nil {
		return wrong("expire: %v", a.err)
	}
	want := registry.Expiry{}
	for i, h := range b.hosts {
		if h.status != fleet.ReplicaOffline && !h.until.After(b.now) {
			b = b.withHost(i, func(h *host) { h.status = fleet.ReplicaOffline })
			want.Offline++
		}
	}
	for n, p := range b.actions {
		switch {
		case p.settled():
		case !s.lives(b, p):
			b = s.end(b, n, fleet.OutcomeLeaseExpired)
			want.Expired++
		case !p.last().deadline.After(b.now):
			b = s.end(b, n, fleet.OutcomeUnknown)
			want.Overdue++
		}
	}
	if a.expiry != want {
		return wrong("maintenance did %+v, the model says %+v", a.expiry, want)
	}
	return one(b)
}
