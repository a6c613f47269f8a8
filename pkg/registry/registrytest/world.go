package registrytest

import (
	"context"
	"fmt"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// World is one case's registry with the clock, the fixture and short words for what
// cases do.
type World struct {
	TB
	Subject
	options Options
	now     time.Time
	leases  map[fleet.ReplicaID]registry.Lease
	claims  int
	fresh   func() Subject // another empty registry of the same kind
}

// Epoch is when the clock of every case starts.
func Epoch() time.Time { return time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC) }

func newWorld(t TB, s Subject, o Options) *World {
	w := &World{TB: t, Subject: s, options: o.withDefaults(), now: Epoch(), leases: map[fleet.ReplicaID]registry.Lease{}}
	s.SetNow(w.now)
	return w
}

func (w *World) ctx() context.Context { return w.TB.Context() }

// advance moves the registry's clock.
func (w *World) advance(d time.Duration) {
	w.now = w.now.Add(d)
	w.SetNow(w.now)
}

// must fails the case on an error that it did not expect.
func (w *World) must(err error, doing string) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v (kind %s, code %s)", doing, err, fleet.KindOf(err), fleet.CodeOf(err))
	}
}

// refused checks kind and code of a refusal; "" accepts any code.
func (w *World) refused(err error, kind fleet.Kind, code string) {
	w.Helper()
	if err == nil {
		w.Fatalf("accepted; want a refusal of kind %s, code %q", kind, code)
	}
	if !fleet.Is(err, kind) || code != "" && fleet.CodeOf(err) != code {
		w.Fatalf("refused with kind %s, code %s (%v); want kind %s, code %q", fleet.KindOf(err), fleet.CodeOf(err), err, kind, code)
	}
}

func (w *World) expect(holds bool, format string, args ...any) {
	w.Helper()
	if !holds {
		w.Errorf(format, args...)
	}
}

func (w *World) snapshot() registry.Snapshot {
	w.Helper()
	s, err := w.Reader.Snapshot(w.ctx())
	w.must(err, "snapshot")
	return s
}

// audit reports every broken invariant.
func (w *World) audit() {
	w.Helper()
	for _, v := range registry.Audit(w.snapshot()) {
		w.Errorf("audit: %s broken by %s: %s", v.Guarantee, v.Subject, v.What)
	}
}

func (w *World) revision() uint64 {
	w.Helper()
	s, err := w.Reader.Status(w.ctx())
	w.must(err, "status")
	return s.Revision
}

// apply publishes a change set against the present revision.
func (w *World) apply(set registry.ChangeSet) (registry.Publication, error) {
	w.Helper()
	if set.Actor == "" {
		set.Actor, set.Reason = "suite", "test"
	}
	return w.Publisher.Apply(w.ctx(), set, w.revision())
}

func (w *World) publish(set registry.ChangeSet) registry.Publication {
	w.Helper()
	p, err := w.apply(set)
	w.must(err, "publish")
	return p
}

func (w *World) transition(v fleet.VersionID, to fleet.VersionStatus) {
	w.Helper()
	_, err := w.Publisher.Transition(w.ctx(), registry.VersionTransition{Version: v, To: to, Actor: "suite", Reason: "test"})
	w.must(err, fmt.Sprintf("transition to %s", to))
}

// admit publishes a version with its admission under trust revision 1.
func (w *World) admit(v fleet.ConnectorVersion) {
	w.Helper()
	w.publish(registry.ChangeSet{Versions: []fleet.ConnectorVersion{v}, Admission: admissionOf(v)})
}

// standard publishes the fleet that most cases start from, and registers its replicas.
func (w *World) standard() {
	w.Helper()
	w.publish(registry.ChangeSet{Types: []fleet.ConnectorType{deskType()}, Trust: trustOne()})
	w.admit(deskVersion(1))
	w.publish(registry.ChangeSet{
		Instances: []fleet.ConnectorInstance{deskInstance(acme()), deskInstance(globex())},
		Replicas: []fleet.Replica{
			deskReplica(acme(), "a"), deskReplica(acme(), "b"), deskReplica(globex(), "a"),
		},
		Bindings: []fleet.CapabilityBinding{
			deskBinding(acme(), open()), deskBinding(acme(), read()), deskBinding(globex(), open()),
		},
	})
	for _, r := range []fleet.ReplicaID{replicaID(acme(), "a"), replicaID(acme(), "b"), replicaID(globex(), "a")} {
		w.register(r)
	}
}

// solo is the standard fleet with one replica of acme left, so that every route of
// acme goes there.
func (w *World) solo() fleet.ReplicaID {
	w.Helper()
	w.standard()
	w.depart(replicaID(acme(), "b"), true)
	return replicaID(acme(), "a")
}

func (w *World) replica(id fleet.ReplicaID) registry.ReplicaRecord {
	w.Helper()
	rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Replicas, IDs: []string{id.String()}})
	w.must(err, "list replicas")
	if len(rec.Replicas) != 1 {
		w.Fatalf("replica %s is listed %d times", id, len(rec.Replicas))
	}
	return rec.Replicas[0]
}

// counter reads one scope's counter; absent is 0.
func (w *World) counter(kind fleet.ScopeKind, key string) uint32 {
	w.Helper()
	for _, c := range w.snapshot().Counters {
		if c.Kind == kind && c.Key == key {
			return c.Current
		}
	}
	return 0
}

// request is acme's request for desk:open.
func request(action string) registry.RouteRequest {
	return registry.RouteRequest{Action: actionID(action), Capability: open(), Tenant: acme()}
}

func (w *World) try(action string) (fleet.Assignment, error) {
	return w.Router.Resolve(w.ctx(), request(action))
}

func (w *World) resolve(action string) fleet.Assignment {
	w.Helper()
	a, err := w.try(action)
	w.must(err, "resolve "+action)
	return a
}

func (w *World) settleAs(a fleet.Assignment, s fleet.Settlement) registry.Receipt {
	w.Helper()
	r, err := w.Router.Settle(w.ctx(), a, s)
	w.must(err, "settle")
	return r
}

func (w *World) settle(a fleet.Assignment, o fleet.Outcome) registry.Receipt {
	w.Helper()
	return w.settleAs(a, fleet.Settlement{Outcome: o})
}

func (w *World) lookup(action string) registry.RouteRecord {
	w.Helper()
	r, err := w.Router.Lookup(w.ctx(), acme(), actionID(action))
	w.must(err, "lookup")
	return r
}

func (w *World) expire() registry.Expiry {
	w.Helper()
	e, err := w.Fleet.Expire(w.ctx(), 1000)
	w.must(err, "expire")
	return e
}
