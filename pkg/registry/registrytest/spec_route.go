package registrytest

import (
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

func (s spec) resolve(b belief, c call, a answer) ([]belief, string) {
	p, known := b.actions[c.action]
	switch {
	case !known && a.lost:
		return append(s.routedSomewhere(b, c), b), ""
	case !known:
		return s.resolveNew(b, c, a)
	case p.settled() && a.lost:
		return append(s.reservedAgain(b, c), b), ""
	case p.settled():
		return s.resolveAgain(b, c, a)
	case s.lives(b, p) && a.lost:
		return one(b)
	case s.lives(b, p):
		return s.resolveReserved(b, c, a)
	}
	stale := s.end(b, c.action, fleet.OutcomeLeaseExpired)
	if a.lost {
		return append(s.reservedAgain(stale, c), b, stale), ""
	}
	return s.resolveAgain(stale, c, a)
}

// lives tells whether a reservation's host is the one that it was made with.
func (s spec) lives(b belief, p pinned) bool {
	if b.hosts == nil || p.host < 0 {
		return true
	}
	h := b.hosts[p.host]
	return h.alive(b.now) && h.epoch == p.last().epoch
}

// routedSomewhere is every state that a new action may be in once it was routed.
func (s spec) routedSomewhere(b belief, c call) (states []belief) {
	if b.hosts == nil {
		return []belief{s.reserve(b, c.action, pinned{host: -1}, attempt{})}
	}
	for i, h := range b.hosts {
		if s.takesNew(h, b.now) {
			states = append(states, s.reserve(b, c.action, pinned{host: i}, attempt{epoch: h.epoch}))
		}
	}
	return states
}

// reservedAgain is the state after a retry that was granted, if it may be.
func (s spec) reservedAgain(b belief, c call) []belief {
	p := b.actions[c.action]
	if p.completed() || !s.takesAgain(b, p) {
		return nil
	}
	a := attempt{}
	if b.hosts != nil && p.host >= 0 {
		a.epoch = b.hosts[p.host].epoch
	}
	return []belief{s.reserve(b, c.action, p, a)}
}

// takesAgain tells whether the pinned host has room; an unknown one may.
func (s spec) takesAgain(b belief, p pinned) bool {
	if b.hosts == nil || p.host < 0 {
		return true
	}
	h := b.hosts[p.host]
	return h.alive(b.now) && h.active < s.capacity
}

func (s spec) resolveNew(b belief, c call, a answer) ([]belief, string) {
	if a.err != nil {
		for i, h := range b.hosts {
			if s.takesNew(h, b.now) {
				return wrong("a new action was refused (%v) although %s takes it", a.err, s.replicas[i])
			}
		}
		if !fleet.Is(a.err, fleet.ReplicaUnavailable) {
			return wrong("a new action was refused with %v", a.err)
		}
		return one(b)
	}
	i := s.hostOf(a.assignment.Route.Replica)
	if i < 0 || a.assignment.Attempt.Fence.Number != 1 || len(a.assignment.Earlier) != 0 {
		return wrong("a new action got %s", a)
	}
	if b.hosts != nil {
		h := b.hosts[i]
		if !s.takesNew(h, b.now) || a.assignment.Attempt.LeaseEpoch != h.epoch {
			return wrong("it was routed to %s, which is %+v", a.assignment.Route.Replica, h)
		}
	}
	return one(s.reserve(b, c.action, pinned{route: a.assignment.Route, host: i}, told(a.assignment)))
}

func (s spec) hostOf(id fleet.ReplicaID) int {
	for i, r := range s.replicas {
		if r == id {
			return i
		}
	}
	return -1
}

// told is an attempt as an answer shows it.
func told(a fleet.Assignment) attempt {
	return attempt{token: a.Attempt.Fence.Token, epoch: a.Attempt.LeaseEpoch, deadline: a.Attempt.Deadline}
}

func (s spec) resolveReserved(b belief, c call, a answer) ([]belief, string) {
	if a.err != nil {
		return wrong("a reserved action was refused: %v", a.err)
	}
	p := b.actions[c.action]
	if int(a.assignment.Attempt.Fence.Number) != len(p.attempts) {
		return wrong("a reserved action got fence %d, it has %d", a.assignment.Attempt.Fence.Number, len(p.attempts))
	}
	p, ok := s.learn(p, len(p.attempts), a.assignment.Route, told(a.assignment))
	if !ok || !earlierRight(p, a.assignment) {
		return wrong("a reserved action got another reservation than it has")
	}
	return one(b.with(c.action, p))
}

// learn fills in what a lost answer left unknown of one attempt, and reports whether
// the rest is as believed.
func (s spec) learn(p pinned, fence int, route fleet.RouteAssignment, t attempt) (pinned, bool) {
	had := p.attempts[fence-1]
	if had.token == "" {
		t.outcome = had.outcome
		had = t
	}
	if p.route.Action.IsZero() {
		i := s.hostOf(route.Replica)
		if i < 0 || p.host >= 0 && p.host != i {
			return p, false
		}
		p.route, p.host = route, i
	}
	t.outcome = had.outcome
	same := had.token == t.token && had.epoch == t.epoch && had.deadline.Equal(t.deadline) && p.route == route
	if had != p.attempts[fence-1] {
		attempts := make([]attempt, len(p.attempts))
		copy(attempts, p.attempts)
		attempts[fence-1] = had
		p.attempts = attempts
	}
	return p, same
}

// earlierRight compares what an assignment says of older attempts.
func earlierRight(p pinned, a fleet.Assignment) bool {
	before := int(a.Attempt.Fence.Number) - 1
	if len(a.Earlier) != before {
		return false
	}
	for i, e := range a.Earlier {
		want := fleet.VerdictUnknown
		if p.attempts[i].outcome == fleet.OutcomeCancelled {
			want = fleet.VerdictNotStarted
		}
		if e.Fence != uint64(i+1) || e.Verdict != want {
			return false
		}
	}
	return true
}

func (s spec) resolveAgain(b belief, c call, a answer) ([]belief, string) {
	p := b.actions[c.action]
	if p.completed() {
		if !fleet.Is(a.err, fleet.Conflict) {
			return wrong("a completed action was answered %s", a)
		}
		return one(b)
	}
	possible := s.takesAgain(b, p)
	if a.err != nil {
		believed := b.hosts != nil && p.host >= 0
		if believed && possible || !fleet.Is(a.err, fleet.ReplicaUnavailable) {
			return wrong("a retry was refused (%v); possible: %v", a.err, possible)
		}
		return one(b)
	}
	if !possible {
		return wrong("a retry was granted on a replica that is %+v", b.hosts[p.host])
	}
	if int(a.assignment.Attempt.Fence.Number) != len(p.attempts)+1 {
		return wrong("a retry got fence %d after %d attempts", a.assignment.Attempt.Fence.Number, len(p.attempts))
	}
	if b.hosts != nil && p.host >= 0 && a.assignment.Attempt.LeaseEpoch != b.hosts[p.host].epoch {
		return wrong("a retry got epoch %d", a.assignment.Attempt.LeaseEpoch)
	}
	grown := s.reserve(b, c.action, p, told(a.assignment))
	q, ok := s.learn(grown.actions[c.action], len(p.attempts)+1, a.assignment.Route, told(a.assignment))
	if !ok || !earlierRight(q, a.assignment) {
		return wrong("a retry moved, or told its past wrongly")
	}
	return one(grown.with(c.action, q))
}

func (s spec) settle(b belief, c call, a answer) ([]belief, string) {
	p, known := b.actions[c.action]
	fence := int(c.held.Attempt.Fence.Number)
	if !known || fence > len(p.attempts) {
		return wrong("fence %d was held, and there are %d", fence, len(p.attempts))
	}
	p, ok := s.learn(p, fence, c.held.Route, told(c.held))
	if !ok {
		return wrong("the assignment that was held is not the one that there is")
	}
	b = b.with(c.action, p)
	current := fence == len(p.attempts)
	switch {
	case a.lost && current && !p.settled():
		return []belief{b, s.end(b, c.action, c.outcome)}, ""
	case a.lost:
		return one(b)
	case !current:
		// A settlement that was repeated after a lost answer may find that its attempt
		// ended as it asked, and a newer one was reserved since.
		found := s.shared && a.err == nil && !a.receipt.First && a.receipt.Settlement.Outcome == c.outcome && c.outcome == p.attempts[fence-1].outcome
		if !fleet.Is(a.err, fleet.FenceLost) && !found {
			return wrong("an older fence was answered %s", a)
		}
		return one(b)
	case a.err != nil:
		return wrong("the current assignment was refused: %v", a.err)
	}
	return s.settled(b, c, a)
}

func (s spec) settled(b belief, c call, a answer) ([]belief, string) {
	p, r := b.actions[c.action], a.receipt
	if p.settled() {
		if r.First || r.Settlement.Outcome != p.last().outcome {
			return wrong("a second settlement was answered %s, the first was %s", a, p.last().outcome)
		}
		return one(b)
	}
	// A settlement that was repeated after a lost answer may find itself.
	if r.Settlement.Outcome != c.outcome || !r.First && !s.shared {
		return wrong("the first settlement as %s was answered %s", c.outcome, a)
	}
	return one(s.end(b, c.action, c.outcome))
}

func (s spec) lookup(b belief, c call, a answer) ([]belief, string) {
	p, known := b.actions[c.action]
	switch {
	case a.lost:
		return one(b)
	case !known && fleet.Is(a.err, fleet.NotFound):
		return one(b)
	case !known || a.err != nil:
		return wrong("a lookup was answered %s; known: %v", a, known)
	case len(a.record.Attempts) != len(p.attempts):
		return wrong("a lookup found %d attempts of %d", len(a.record.Attempts), len(p.attempts))
	}
	for i, t := range a.record.Attempts {
		var ok bool
		if p, ok = s.learn(p, i+1, a.record.Route, told(fleet.Assignment{Attempt: t})); !ok {
			return wrong("a lookup found another attempt %d", i+1)
		}
		outcome := fleet.Outcome("")
		if t.Settlement != nil {
			outcome = t.Settlement.Outcome
		}
		if outcome != p.attempts[i].outcome {
			return wrong("a lookup found attempt %d %q, it is %q", i+1, outcome, p.attempts[i].outcome)
		}
	}
	return one(b.with(c.action, p))
}
