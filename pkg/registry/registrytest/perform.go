package registrytest

import (
	"fmt"
	"time"

	"github.com/aipfleet/aipfleet/pkg/registry"
)

// modelLife is an action's time to live in every history.
const modelLife = 65 * time.Second

// asked is the request for action n of a history.
func asked(n int) registry.RouteRequest {
	req := request(fmt.Sprintf("m%d", n))
	req.TimeToLive = modelLife
	return req
}

// perform plays one call on the registry. Calls about routes may be made by several
// goroutines at once; those about hosts and time by one.
func (m *model) perform(c call) (a answer) {
	id := m.spec.replicas[c.host]
	switch c.verb {
	case resolveVerb, settleVerb, lookupVerb:
		return m.onRoute(c)
	case registerVerb:
		a.lease, a.err = m.Fleet.Register(m.ctx(), m.registration(id))
		if a.err == nil {
			m.leases[id] = a.lease
		}
	case beatVerb:
		a.lease, a.err = m.Fleet.Renew(m.ctx(), m.nextBeat(id))
		if a.err == nil {
			m.leases[id] = a.lease
		}
	case intendVerb:
		_, a.err = m.Fleet.Intend(m.ctx(), registry.Intent{Replica: id, Want: c.want, Actor: "suite", Reason: "test"})
	case leaveVerb:
		_, a.err = m.Fleet.Leave(m.ctx(), registry.Departure{
			Claim: m.claim(), Replica: id, PeerDID: didOf(id), Epoch: m.leases[id].Epoch, Offline: c.offline,
		})
	case passVerb:
		m.advance(c.pass)
	case expireVerb:
		a.expiry, a.err = m.Fleet.Expire(m.ctx(), 1000)
	}
	return a
}
