package registrytest

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func leaseCases() []Case {
	return []Case{
		{Name: "G22/registration_starts_a_new_epoch", Why: "an epoch that is used twice cannot tell a dead process from its successor", Run: leaseRegister},
		{Name: "G22/living_lease_is_superseded_only_by_its_own_host", Why: "two hosts behind one identity would both execute", Run: leaseHeld},
		{Name: "G22/registration_must_match_what_was_declared", Why: "a host with other bytes, tenant or key is not the declared process", Run: leaseCoordinates},
		{Name: "G22/old_beats_are_refused", Why: "a delayed beat must not keep a dead lease alive", Run: leaseOldBeats},
		{Name: "G22/ended_epoch_cannot_renew", Why: "a lease that can be revived after its end was never bounded", Run: leaseEnded},
		{Name: "G23/no_beat_ends_a_drain", Why: "a drain that a heartbeat undoes never completes", Run: leaseDrainSticky},
		{Name: "G23/operator_drain_acts_at_once_and_reaches_the_host", Why: "a drain must not wait for the host to agree", Run: leaseOperatorDrain},
		{Name: "G23/unready_beats_make_unhealthy", Why: "one slow check must not remove a replica, three must", Run: leaseUnhealthy},
		{Name: "G08/starting_host_gets_nothing_yet", Why: "a host has its lease before its connector is up, and could only refuse", Run: leaseStarting},
		{Name: "G23/leaving_takes_effect_at_once", Why: "a host that says it goes must get nothing more", Run: leaseLeave},
		{Name: "G22/repeated_request_gets_its_first_answer", Why: "a resent registration that starts another epoch cuts off its own host", Run: leaseReplay},
		{Name: "G23/revoked_or_disabled_is_told_to_drain", Why: "the host must hear that nothing more will come", Run: leaseToldToDrain},
		{Name: "G22/time_to_live_is_bounded", Why: "an endless lease is no lease", Run: leaseTTLBounds},
		{Name: "G18/unknown_replica_is_not_found", Why: "undeclared hosts must not get a lease", Run: leaseUnknown},
	}
}

func leaseRegister(w *World) {
	w.standard()
	id := replicaID(acme(), "a")
	l := w.leases[id]
	w.expect(l.Replica == id && l.Epoch == 1 && l.Sequence == 1 && l.TTL == leaseTTL && l.Status == fleet.ReplicaReady && l.Intent == fleet.IntentRun, "the first lease is %+v", l)
	live := w.replica(id).Live
	w.expect(live.LeaseExpiresAt.Equal(l.ExpiresAt) && live.Healthy && live.Journal == journalID(id), "the live state is %s", text(live))
	w.advance(time.Second)
	beat := w.beat(id)
	w.expect(beat.Sequence == 2 && beat.Epoch == 1 && beat.ExpiresAt.After(l.ExpiresAt), "the beat gives %+v", beat)
	w.depart(id, true)
	w.expect(w.register(id).Epoch == 2, "after going offline the epoch is %d", w.leases[id].Epoch)
}

func leaseHeld(w *World) {
	w.standard()
	id := replicaID(acme(), "a")
	for what, edit := range map[string]func(*registry.Registration){
		"another journal":   func(r *registry.Registration) { r.Journal = journalID(replicaID(acme(), "b")) },
		"no epoch known":    func(r *registry.Registration) { r.LastEpoch = 0 },
		"a wrong epoch":     func(r *registry.Registration) { r.LastEpoch = 7 },
		"journal and epoch": func(r *registry.Registration) { r.LastEpoch, r.Journal = 9, journalID(replicaID(globex(), "a")) },
	} {
		r := w.registration(id)
		edit(&r)
		_, err := w.Fleet.Register(w.ctx(), r)
		w.expect(fleet.Is(err, fleet.Conflict) && fleet.CodeOf(err) == "lease.held", "%s: %v", what, err)
	}
	w.expect(w.replica(id).Live.LeaseEpoch == 1, "a refused registration moved the epoch")
	w.expect(w.register(id).Epoch == 2, "the same host could not come back")
	w.advance(leaseTTL + time.Second)
	r := w.registration(id)
	r.LastEpoch = 0
	l, err := w.Fleet.Register(w.ctx(), r)
	w.must(err, "register after the lease ended")
	w.expect(l.Epoch == 3, "the epoch is %d", l.Epoch)
}

func leaseCoordinates(w *World) {
	w.standard()
	id := replicaID(acme(), "a")
	w.depart(id, true)
	for what, c := range map[string]struct {
		edit func(*registry.Registration)
		kind fleet.Kind
	}{
		"peer":         {func(r *registry.Registration) { r.PeerDID = didOf(replicaID(acme(), "b")) }, fleet.Denied},
		"no peer":      {func(r *registry.Registration) { r.PeerDID = "" }, fleet.Denied},
		"tenant":       {func(r *registry.Registration) { r.Tenant = globex() }, fleet.Denied},
		"manifest":     {func(r *registry.Registration) { r.ManifestDigest = digest("other") }, fleet.NotAdmitted},
		"artifact":     {func(r *registry.Registration) { r.ArtifactDigest = digest("other") }, fleet.NotAdmitted},
		"capabilities": {func(r *registry.Registration) { r.CapabilityCount = 1 }, fleet.NotAdmitted},
		"secret":       {func(r *registry.Registration) { r.SecretProviderRef = "file:other" }, fleet.Conflict},
		"config":       {func(r *registry.Registration) { r.ConfigRevision = 9 }, fleet.Conflict},
		"no journal":   {func(r *registry.Registration) { r.Journal = fleet.JournalID{} }, fleet.Invalid},
		"no capacity":  {func(r *registry.Registration) { r.Capacity = 0 }, fleet.Invalid},
		"no claim":     {func(r *registry.Registration) { r.Claim = registry.RequestClaim{} }, fleet.Invalid},
	} {
		r := w.registration(id)
		c.edit(&r)
		_, err := w.Fleet.Register(w.ctx(), r)
		w.expect(fleet.Is(err, c.kind), "another %s: %v, want %s", what, err, c.kind)
	}
	w.expect(w.replica(id).Live.Status == fleet.ReplicaOffline, "a refused registration took effect")
	older := w.registration(id)
	older.ConfigRevision = 0
	_, err := w.Fleet.Register(w.ctx(), older)
	w.must(err, "register with an older configuration")
}

func leaseOldBeats(w *World) {
	w.standard()
	id := replicaID(acme(), "a")
	first := w.nextBeat(id)
	w.beatAs(first)
	w.beat(id)
	before := w.replica(id).Live
	for what, edit := range map[string]func(*registry.Beat){
		"a repeat":        func(b *registry.Beat) { b.Sequence = w.leases[id].Sequence },
		"an older one":    func(b *registry.Beat) { b.Sequence = first.Sequence },
		"sequence 0":      func(b *registry.Beat) { b.Sequence = 0 },
		"an older epoch":  func(b *registry.Beat) { b.Epoch = 0 },
		"a later epoch":   func(b *registry.Beat) { b.Epoch = 2 },
		"another's epoch": func(b *registry.Beat) { b.Epoch, b.Sequence = 99, 99 },
	} {
		b := w.nextBeat(id)
		edit(&b)
		_, err := w.Fleet.Renew(w.ctx(), b)
		w.expect(fleet.Is(err, fleet.LeaseLost), "%s: %v", what, err)
	}
	stranger := w.nextBeat(id)
	stranger.PeerDID = didOf(replicaID(acme(), "b"))
	_, err := w.Fleet.Renew(w.ctx(), stranger)
	w.refused(err, fleet.Denied, "lease.peer")
	w.expect(w.replica(id).Live == before, "a refused beat changed %s to %s", text(before), text(w.replica(id).Live))
}

func leaseEnded(w *World) {
	w.standard()
	a, b, c := replicaID(acme(), "a"), replicaID(acme(), "b"), replicaID(globex(), "a")
	old := w.nextBeat(a)
	w.register(a)
	_, err := w.Fleet.Renew(w.ctx(), old)
	w.refused(err, fleet.LeaseLost, "lease.epoch")
	w.depart(b, true)
	_, err = w.Fleet.Renew(w.ctx(), w.nextBeat(b))
	w.refused(err, fleet.LeaseLost, "lease.offline")
	w.advance(leaseTTL + time.Second)
	_, err = w.Fleet.Renew(w.ctx(), w.nextBeat(c))
	w.refused(err, fleet.LeaseLost, "lease.expired")
	_, err = w.Fleet.Leave(w.ctx(), registry.Departure{Claim: w.claim(), Replica: c, PeerDID: didOf(c), Epoch: 1})
	w.refused(err, fleet.LeaseLost, "lease.expired")
	w.expire()
	_, err = w.Fleet.Renew(w.ctx(), w.nextBeat(c))
	w.refused(err, fleet.LeaseLost, "lease.offline")
}

func leaseDrainSticky(w *World) {
	w.standard()
	id := replicaID(acme(), "a")
	w.expect(w.depart(id, false).Status == fleet.ReplicaDraining, "drain answers %s", w.replica(id).Live.Status)
	for range 3 {
		w.advance(time.Second)
		l := w.beat(id)
		w.expect(l.Status == fleet.ReplicaDraining && w.replica(id).Live.Status == fleet.ReplicaDraining, "a beat made it %s", l.Status)
	}
	other := replicaID(acme(), "b")
	b := w.nextBeat(other)
	b.Draining = true
	w.expect(w.beatAs(b).Status == fleet.ReplicaDraining, "a beat that says draining leaves it %s", w.replica(other).Live.Status)
	w.expect(w.beat(other).Status == fleet.ReplicaDraining, "the next beat ended the drain")
	_, err := w.try("one")
	w.refused(err, fleet.ReplicaUnavailable, "")
}

func leaseOperatorDrain(w *World) {
	id := w.solo()
	w.intend(id, fleet.IntentDrain)
	_, err := w.try("one")
	w.refused(err, fleet.ReplicaUnavailable, "")
	l := w.beat(id)
	w.expect(l.Intent == fleet.IntentDrain && l.Status == fleet.ReplicaDraining, "the next beat answers %+v", l)
	w.depart(id, true)
	l = w.register(id)
	w.expect(l.Intent == fleet.IntentDrain && l.Status == fleet.ReplicaDraining, "registering under drain intent answers %+v", l)
	w.intend(id, fleet.IntentRun)
	_, err = w.try("one")
	w.refused(err, fleet.ReplicaUnavailable, "")
	l = w.beat(id)
	w.expect(l.Intent == fleet.IntentRun && l.Status == fleet.ReplicaReady, "after undrain the next beat answers %+v", l)
	w.resolve("one")
	_, err = w.Fleet.Intend(w.ctx(), registry.Intent{Replica: id, Want: "stop", Actor: "suite", Reason: "test"})
	w.refused(err, fleet.Invalid, "")
	_, err = w.Fleet.Intend(w.ctx(), registry.Intent{Replica: id, Want: fleet.IntentDrain})
	w.refused(err, fleet.Invalid, "")
}

func leaseUnhealthy(w *World) {
	id := w.solo()
	for n := 1; n <= registry.UnhealthyAfter; n++ {
		w.resolve("ok" + string(rune('0'+n)))
		w.settle(w.resolve("ok"+string(rune('0'+n))), fleet.OutcomeCompleted)
		b := w.nextBeat(id)
		b.Ready, b.InFlight = false, 2
		w.beatAs(b)
		live := w.replica(id).Live
		w.expect(live.NotReadyBeats == uint32(n) && live.InFlight == 2 && live.Healthy == (n < registry.UnhealthyAfter), "after %d unready beats it is %s", n, text(live))
	}
	_, err := w.try("late")
	w.refused(err, fleet.ReplicaUnavailable, "")
	w.beat(id)
	w.expect(w.replica(id).Live.Healthy && w.replica(id).Live.NotReadyBeats == 0, "a ready beat leaves it %s", text(w.replica(id).Live))
	w.resolve("late")
}

func leaseStarting(w *World) {
	id := w.solo()
	w.settle(w.resolve("before"), fleet.OutcomeCompleted)
	r := w.registration(id)
	r.Starting = true
	l, err := w.Fleet.Register(w.ctx(), r)
	w.must(err, "register a host that is starting")
	w.leases[id] = l
	w.expect(l.Epoch == 2 && l.Status == fleet.ReplicaReady, "a host that is starting got %+v", l)
	for range registry.UnhealthyAfter + 1 { // beats that are not ready change nothing
		w.expect(!w.replica(id).Live.Healthy, "a host that is starting is %s", text(w.replica(id).Live))
		_, err = w.try("early")
		w.refused(err, fleet.ReplicaUnavailable, "")
		b := w.nextBeat(id)
		b.Ready = false
		w.beatAs(b)
	}
	w.beat(id)
	live := w.replica(id).Live
	w.expect(live.Healthy && live.NotReadyBeats == 0, "its first ready beat leaves it %s", text(live))
	w.expect(w.resolve("early").Route.Replica == id, "a host that became ready is not used")
}

func leaseLeave(w *World) {
	id := w.solo()
	held := w.resolve("held")
	w.depart(id, true)
	live := w.replica(id).Live
	w.expect(live.Status == fleet.ReplicaOffline && !live.LeaseExpiresAt.After(w.now.Add(time.Second)), "it is %s", text(live))
	_, err := w.try("one")
	w.refused(err, fleet.ReplicaUnavailable, "")
	_, err = w.Fleet.Leave(w.ctx(), registry.Departure{Claim: w.claim(), Replica: id, PeerDID: didOf(id), Epoch: 1, Offline: true})
	w.refused(err, fleet.LeaseLost, "lease.offline")
	w.expect(w.settle(held, fleet.OutcomeCompleted).First, "its last answer was not accepted")
}

func leaseReplay(w *World) {
	w.standard()
	id := replicaID(acme(), "a")
	r := w.registration(id)
	first, err := w.Fleet.Register(w.ctx(), r)
	w.must(err, "register")
	w.advance(time.Second)
	again, err := w.Fleet.Register(w.ctx(), r)
	w.must(err, "register again")
	w.expect(text(first) == text(again), "the repeat answers %s, first was %s", text(again), text(first))
	w.expect(w.replica(id).Live.LeaseEpoch == first.Epoch, "the repeat moved the epoch")
	forged := r
	forged.Claim.Digest = digest("other bytes")
	_, err = w.Fleet.Register(w.ctx(), forged)
	w.refused(err, fleet.Conflict, "lease.replay")
	d := registry.Departure{Claim: w.claim(), Replica: id, PeerDID: didOf(id), Epoch: first.Epoch, Offline: true}
	gone, err := w.Fleet.Leave(w.ctx(), d)
	w.must(err, "leave")
	twice, err := w.Fleet.Leave(w.ctx(), d)
	w.must(err, "leave again")
	w.expect(text(gone) == text(twice), "the repeated departure answers %s, first was %s", text(twice), text(gone))
	d.PeerDID = didOf(replicaID(acme(), "b"))
	_, err = w.Fleet.Leave(w.ctx(), d)
	w.refused(err, fleet.Denied, "lease.peer")
}

func leaseToldToDrain(w *World) {
	w.standard()
	id := replicaID(acme(), "a")
	instance := registry.ChangeSet{Instances: []fleet.ConnectorInstance{deskInstance(acme())}}
	w.publish(toggled(instance, false, 2))
	w.expect(w.beat(id).Intent == fleet.IntentDrain, "with its instance disabled the host is not told to drain")
	w.publish(toggled(instance, true, 3))
	w.expect(w.beat(id).Intent == fleet.IntentRun, "with its instance enabled again the host is told to drain")
	w.transition(versionID(1), fleet.VersionRevoked)
	l := w.beat(id)
	w.expect(l.Intent == fleet.IntentDrain && l.Epoch == 1, "with its version revoked the beat answers %+v", l)
}

func leaseTTLBounds(w *World) {
	w.standard()
	id := replicaID(acme(), "a")
	for _, ttl := range []time.Duration{-time.Second, time.Millisecond, registry.MaxLeaseTTL + time.Second} {
		b := w.nextBeat(id)
		b.TTL = ttl
		_, err := w.Fleet.Renew(w.ctx(), b)
		w.expect(fleet.Is(err, fleet.Invalid), "a beat of %s: %v", ttl, err)
		r := w.registration(id)
		r.TTL = ttl
		_, err = w.Fleet.Register(w.ctx(), r)
		w.expect(fleet.Is(err, fleet.Invalid), "a registration of %s: %v", ttl, err)
	}
	b := w.nextBeat(id)
	b.TTL = 0
	w.expect(w.beatAs(b).TTL == registry.DefaultLeaseTTL, "the default is %s", w.leases[id].TTL)
}

func leaseUnknown(w *World) {
	w.standard()
	r := w.registration(replicaID(acme(), "a"))
	r.Replica = replicaID(acme(), "nobody")
	_, err := w.Fleet.Register(w.ctx(), r)
	w.refused(err, fleet.NotFound, "lease.replica")
	_, err = w.Fleet.Renew(w.ctx(), registry.Beat{Replica: r.Replica, PeerDID: r.PeerDID, Epoch: 1, Sequence: 2})
	w.refused(err, fleet.NotFound, "lease.replica")
	_, err = w.Fleet.Intend(w.ctx(), registry.Intent{Replica: r.Replica, Want: fleet.IntentDrain, Actor: "suite", Reason: "test"})
	w.refused(err, fleet.NotFound, "lease.replica")
}
