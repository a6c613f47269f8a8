package registrytest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// The sequential model. It knows no rule of choice, only what must hold whoever is
// chosen: given what a registry may be in, a call and its answer, it says in which
// states the registry may be afterwards, or that it may not have answered so.
//
// Random sequences (rapid) and recorded concurrent histories (porcupine) are judged
// by this one model: [spec.next] is a pure function.

type verb string

const (
	resolveVerb  verb = "resolve"
	settleVerb   verb = "settle"
	lookupVerb   verb = "lookup"
	beatVerb     verb = "beat"
	registerVerb verb = "register"
	intendVerb   verb = "intend"
	leaveVerb    verb = "leave"
	expireVerb   verb = "expire"
	passVerb     verb = "pass" // time passes
)

// call is one verb and what it was asked with.
type call struct {
	verb    verb
	action  int
	host    int
	held    fleet.Assignment // settle: the assignment as the caller got it
	outcome fleet.Outcome
	want    fleet.OperatorIntent
	offline bool
	pass    time.Duration
}

// answer is what came back. A lost one may or may not have had its effect.
type answer struct {
	err        error
	lost       bool
	assignment fleet.Assignment
	receipt    registry.Receipt
	record     registry.RouteRecord
	lease      registry.Lease
	expiry     registry.Expiry
}

func (c call) String() string {
	switch c.verb {
	case resolveVerb, lookupVerb:
		return fmt.Sprintf("%s %d", c.verb, c.action)
	case settleVerb:
		return fmt.Sprintf("settle %d#%d as %s", c.action, c.held.Attempt.Fence.Number, c.outcome)
	case intendVerb:
		return fmt.Sprintf("intend %d %s", c.host, c.want)
	case leaveVerb:
		return fmt.Sprintf("leave %d offline=%v", c.host, c.offline)
	case passVerb:
		return fmt.Sprintf("pass %s", c.pass)
	}
	return fmt.Sprintf("%s %d", c.verb, c.host)
}

func (a answer) String() string {
	switch {
	case a.lost:
		return "no answer"
	case a.err != nil:
		return fleet.KindOf(a.err).String() + " " + fleet.CodeOf(a.err)
	case !a.assignment.Route.Action.IsZero():
		return fmt.Sprintf("%s fence %d", a.assignment.Route.Replica, a.assignment.Attempt.Fence.Number)
	case a.receipt.Settlement.Outcome != "":
		return fmt.Sprintf("%s first=%v", a.receipt.Settlement.Outcome, a.receipt.First)
	}
	return fmt.Sprintf("%d attempts, epoch %d, %+v", len(a.record.Attempts), a.lease.Epoch, a.expiry)
}

// spec is what does not change in one history.
type spec struct {
	replicas []fleet.ReplicaID
	capacity int
	shared   bool // callers act at the same time, so being told to try again is no refusal
	restless bool // maintenance acts meanwhile: a reservation may end as expired unseen
}

// belief is one state in which the registry may be. Its parts are shared between
// beliefs and never changed.
type belief struct {
	now     time.Time
	hosts   []host // nil: nothing is believed of hosts, so none can be said to be free
	actions map[int]pinned
}

// host is what is believed of one replica.
type host struct {
	status  fleet.ReplicaStatus
	intent  fleet.OperatorIntent
	healthy bool
	epoch   uint64
	until   time.Time
	active  int
}

func (h host) alive(now time.Time) bool {
	return h.status != fleet.ReplicaOffline && h.until.After(now)
}

func (s spec) takesNew(h host, now time.Time) bool {
	return h.alive(now) && h.status == fleet.ReplicaReady && h.intent == fleet.IntentRun && h.healthy && h.active < s.capacity
}

// pinned is one action with its route and attempts, oldest first.
type pinned struct {
	route    fleet.RouteAssignment // zero until an answer told it
	host     int                   // -1 while unknown
	attempts []attempt
}

// attempt is one reservation; outcome is "" while it is reserved.
type attempt struct {
	token    string // "" until an answer told it
	epoch    uint64
	deadline time.Time
	outcome  fleet.Outcome
}

func (p pinned) last() attempt { return p.attempts[len(p.attempts)-1] }
func (p pinned) settled() bool { return p.last().outcome != "" }

func (p pinned) completed() bool {
	return slices.ContainsFunc(p.attempts, func(a attempt) bool { return a.outcome == fleet.OutcomeCompleted })
}

func (s spec) first() belief {
	return belief{actions: map[int]pinned{}}
}

// next gives the states in which the registry may be after it gave this answer to
// this call in state b. With none, why says what is wrong with the answer.
func (s spec) next(b belief, c call, a answer) (after []belief, why string) {
	if a.lost || a.err != nil && s.shared && passing(a.err) {
		a.lost = a.lost || fleet.Is(a.err, fleet.Unknown)
		if !a.lost {
			return []belief{b}, ""
		}
	}
	for _, v := range s.variants(b, c) {
		var states []belief
		var wrong string
		switch c.verb {
		case resolveVerb:
			states, wrong = s.resolve(v, c, a)
		case settleVerb:
			states, wrong = s.settle(v, c, a)
		case lookupVerb:
			states, wrong = s.lookup(v, c, a)
		default:
			states, wrong = s.onHost(v, c, a)
		}
		after = append(after, states...)
		if wrong != "" {
			why = wrong
		}
	}
	if len(after) > 0 {
		return after, ""
	}
	return nil, why
}

// passing errors say that nothing happened, and why not is none of the model's
// business; after Unknown it may have.
func passing(err error) bool {
	return fleet.Is(err, fleet.Contended) || fleet.Is(err, fleet.Unavailable) || fleet.Is(err, fleet.Unknown)
}

// variants adds what maintenance may have done to the action before the call.
func (s spec) variants(b belief, c call) []belief {
	p, known := b.actions[c.action]
	if !s.restless || !known || p.settled() {
		return []belief{b}
	}
	return []belief{b, s.end(b, c.action, fleet.OutcomeLeaseExpired)}
}

func (b belief) with(n int, p pinned) belief {
	b.actions = maps.Clone(b.actions)
	b.actions[n] = p
	return b
}

func (b belief) withHost(i int, change func(*host)) belief {
	if b.hosts == nil || i < 0 {
		return b
	}
	b.hosts = slices.Clone(b.hosts)
	change(&b.hosts[i])
	return b
}

// reserve appends an attempt to an action.
func (s spec) reserve(b belief, n int, p pinned, a attempt) belief {
	p.attempts = append(slices.Clip(p.attempts), a)
	return b.with(n, p).withHost(p.host, func(h *host) { h.active++ })
}

// end settles the newest attempt.
func (s spec) end(b belief, n int, o fleet.Outcome) belief {
	p := b.actions[n]
	p.attempts = slices.Clone(p.attempts)
	p.attempts[len(p.attempts)-1].outcome = o
	return b.with(n, p).withHost(p.host, func(h *host) { h.active-- })
}

// equal compares two beliefs.
func (b belief) equal(o belief) bool {
	return b.now.Equal(o.now) && slices.Equal(b.hosts, o.hosts) && maps.EqualFunc(b.actions, o.actions, func(x, y pinned) bool {
		return x.host == y.host && x.route == y.route && slices.Equal(x.attempts, y.attempts)
	})
}

func one(b belief) ([]belief, string) { return []belief{b}, "" }

func wrong(format string, args ...any) ([]belief, string) { return nil, fmt.Sprintf(format, args...) }
