package registrytest

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func custodyCases() []Case {
	return []Case{
		{Name: "G25/another_journal_needs_an_operator", Why: "a host that forgot what it did must not be taken for the one that knew", Run: custodyJournal},
		{Name: "G25/accepted_journal_speaks_for_nothing_older", Why: "what was reserved under the lost journal stays unknown to later attempts", Run: custodyOlder},
		{Name: "G25/only_an_offered_journal_is_accepted", Why: "an operator accepts what was seen, not what happens to come", Run: custodyOffered},
		{Name: "G38/retired_with_unknowns_forgets_none", Why: "a host that is gone for ever must not take its questions with it", Run: custodyUnknowns},
		{Name: "G37/only_a_drained_replica_is_retired", Why: "work in flight would lose its only witness", Run: custodyDrained},
		{Name: "G23/what_never_ran_may_be_retired", Why: "an identity that was declared and never used must not have to run first", Run: custodyUnused},
		{Name: "G22/retired_never_comes_back", Why: "an identity that can come back was not retired", Run: custodyFinal},
		{Name: "G09/retired_route_is_lost_and_says_so", Why: "a client that waits for a retired replica waits for ever", Run: custodyRetry},
	}
}

func (w *World) offer(id fleet.ReplicaID, journal string) (fleet.JournalID, error) {
	r := w.registration(id)
	r.Journal = parsed(fleet.ParseJournalID(journal))
	_, err := w.Fleet.Register(w.ctx(), r)
	return r.Journal, err
}

func (w *World) accept(id fleet.ReplicaID, journal fleet.JournalID) (fleet.ReplicaLive, error) {
	return w.Custody.AcceptJournal(w.ctx(), registry.JournalAcceptance{Replica: id, Journal: journal, Actor: "ann", Reason: "the disk died"})
}

func (w *World) retire(id fleet.ReplicaID) (registry.Retired, error) {
	return w.Custody.Retire(w.ctx(), registry.Retirement{Replica: id, Actor: "ann", Reason: "the machine is gone"})
}

// eventsOf lists the events of a kind about a subject, newest first.
func (w *World) eventsOf(kind, subject string) (found []registry.Event) {
	w.Helper()
	rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Events, Limit: registry.MaxListItems})
	w.must(err, "list events")
	for _, e := range rec.Events {
		if e.Kind == kind && e.Subject == subject {
			found = append(found, e)
		}
	}
	return found
}

func custodyJournal(w *World) {
	id := w.solo()
	known := w.replica(id).Live.Journal
	w.depart(id, true)
	before := len(w.eventsOf("lease", id.String()))
	var journal fleet.JournalID
	for range 3 {
		var err error
		journal, err = w.offer(id, "jrnl_new")
		w.refused(err, fleet.Conflict, "lease.journal_changed")
	}
	live := w.replica(id).Live
	w.expect(live.Status == fleet.ReplicaOffline && live.Journal == known && live.OfferedJournal == journal, "refused, it is %s", text(live))
	w.expect(len(w.eventsOf("lease", id.String())) == before+1, "the same offer made %d events", len(w.eventsOf("lease", id.String()))-before)
	_, err := w.try("early")
	w.expect(err != nil, "a replica whose journal is refused got work")
	live, err = w.accept(id, journal)
	w.must(err, "accept")
	w.expect(live.Journal == journal && live.OfferedJournal.IsZero(), "accepted, it is %s", text(live))
	e := w.eventsOf(registry.EventJournal, id.String())
	w.expect(len(e) == 1 && e[0].Actor == "ann" && e[0].Reason == "the disk died", "the events are %s", text(e))
	_, err = w.accept(id, journal)
	w.must(err, "accept again")
	w.expect(len(w.eventsOf(registry.EventJournal, id.String())) == 1, "the repeat left an event")
	_, err = w.offer(id, "jrnl_new")
	w.must(err, "register with the accepted journal")
	w.expect(w.resolve("one").Attempt.Journal == journal, "the attempt names another journal")
	w.expect(w.replica(id).Live.OfferedJournal.IsZero(), "an offer is left")
}

func custodyOlder(w *World) {
	id := w.solo()
	known := w.replica(id).Live.Journal
	w.settle(w.resolve("one"), fleet.OutcomeUnknown)
	w.depart(id, true)
	journal, err := w.offer(id, "jrnl_new")
	w.refused(err, fleet.Conflict, "lease.journal_changed")
	_, err = w.accept(id, journal)
	w.must(err, "accept")
	_, err = w.offer(id, "jrnl_new")
	w.must(err, "register")
	w.expect(w.uncertainRecord("one").State == fleet.ReconcileOpen, "the record is %s", text(w.uncertainRecord("one")))
	again := w.resolve("one")
	w.expect(again.Attempt.Journal == journal && len(again.Earlier) == 1 && again.Earlier[0].Journal == known &&
		again.Earlier[0].Verdict == fleet.VerdictUnknown, "the retry is %s", text(again))
}

func custodyOffered(w *World) {
	id := w.solo()
	other := parsed(fleet.ParseJournalID("jrnl_other"))
	_, err := w.accept(id, other)
	w.refused(err, fleet.Conflict, "lease.held")
	w.depart(id, true)
	_, err = w.accept(id, other)
	w.refused(err, fleet.Conflict, "lease.journal_not_offered")
	_, err = w.accept(id, fleet.JournalID{})
	w.refused(err, fleet.Invalid, "")
	_, err = w.accept(parsed(fleet.ParseReplicaID("crepl_none")), other)
	w.refused(err, fleet.NotFound, "lease.replica")
	_, err = w.Custody.AcceptJournal(w.ctx(), registry.JournalAcceptance{Replica: id, Journal: other, Actor: "ann"})
	w.refused(err, fleet.Invalid, "publish.reason")
	first, err := w.offer(id, "jrnl_first")
	w.refused(err, fleet.Conflict, "lease.journal_changed")
	second, err := w.offer(id, "jrnl_second")
	w.refused(err, fleet.Conflict, "lease.journal_changed")
	_, err = w.accept(id, first)
	w.refused(err, fleet.Conflict, "lease.journal_not_offered")
	w.register(id) // the old journal was found
	w.expect(w.replica(id).Live.OfferedJournal.IsZero(), "the offer outlived the registration")
	w.depart(id, true)
	_, err = w.accept(id, second)
	w.refused(err, fleet.Conflict, "lease.journal_not_offered")
}

func custodyUnknowns(w *World) {
	id := w.solo()
	w.settle(w.resolve("one"), fleet.OutcomeUnknown)
	w.settle(w.resolve("two"), fleet.OutcomeUnknown)
	w.resolve("three") // released by expiry
	_, err := w.Uncertain.Decide(w.ctx(), keyOf("two", 1), registry.Decision{Resolution: fleet.ResolvedNotStarted, By: "host", Evidence: digest("e")})
	w.must(err, "decide")
	w.advance(leaseTTL + time.Second)
	w.expire()
	done, err := w.retire(id)
	w.must(err, "retire")
	w.expect(done.HandedOver == 2 && done.Live.Status == fleet.ReplicaRetired, "retired: %s", text(done))
	e := w.eventsOf(registry.EventRetired, id.String())
	w.expect(len(e) == 1 && e[0].Actor == "ann" && e[0].Reason == "the machine is gone", "the events are %s", text(e))
	again, err := w.retire(id)
	w.must(err, "retire again")
	w.expect(again.HandedOver == 0 && len(w.eventsOf(registry.EventRetired, id.String())) == 1, "the repeat did %s", text(again))
	w.advance(time.Hour)
	w.expect(len(w.due(10)) == 0, "a host that is gone for ever is asked")
	w.note("one", "unreachable", time.Second, fleet.ReconcileOpen) // a probe that was under way
	w.advance(time.Hour)
	w.expect(len(w.due(10)) == 0, "a late note made it due again")
	for _, action := range []string{"one", "three"} {
		u := w.uncertainRecord(action)
		w.expect(u.State == fleet.ReconcileOperator, "%s is %s", action, u.State)
		_, err = w.Uncertain.Decide(w.ctx(), keyOf(action, 1), registry.Decision{
			Resolution: fleet.ResolvedDidNotHappen, By: "ann", Evidence: digest("looked"), Document: []byte(`{"signed":1}`)})
		w.must(err, "decide "+action)
	}
	w.expect(w.uncertainRecord("two").Resolution == fleet.ResolvedNotStarted, "a decided record changed")
}

func custodyDrained(w *World) {
	id := w.solo()
	_, err := w.retire(id)
	w.refused(err, fleet.Conflict, "lease.not_drained")
	a := w.resolve("one")
	w.intend(id, fleet.IntentDrain)
	w.beat(id)
	_, err = w.retire(id)
	w.refused(err, fleet.Conflict, "lease.not_drained")
	w.settle(a, fleet.OutcomeCompleted)
	b := w.nextBeat(id)
	b.InFlight = 1
	w.beatAs(b)
	_, err = w.retire(id)
	w.refused(err, fleet.Conflict, "lease.not_drained")
	w.beat(id)
	_, err = w.Custody.Retire(w.ctx(), registry.Retirement{Replica: id, Actor: "ann"})
	w.refused(err, fleet.Invalid, "publish.reason")
	_, err = w.retire(parsed(fleet.ParseReplicaID("crepl_none")))
	w.refused(err, fleet.NotFound, "lease.replica")
	_, err = w.retire(id)
	w.must(err, "retire a drained replica")
	_, err = w.Fleet.Renew(w.ctx(), w.nextBeat(id))
	w.refused(err, fleet.LeaseLost, "lease.retired")
}

func custodyUnused(w *World) {
	w.standard()
	w.publish(registry.ChangeSet{Replicas: []fleet.Replica{deskReplica(acme(), "c")}})
	done, err := w.retire(replicaID(acme(), "c"))
	w.must(err, "retire a replica that never ran")
	w.expect(done.Live.Status == fleet.ReplicaRetired && done.HandedOver == 0, "it is %s", text(done))
}

func custodyFinal(w *World) {
	id := w.solo()
	w.depart(id, true)
	_, err := w.retire(id)
	w.must(err, "retire")
	for range 2 {
		_, err = w.Fleet.Register(w.ctx(), w.registration(id))
		w.refused(err, fleet.Conflict, "lease.retired")
		w.advance(time.Hour)
		w.expire()
	}
	_, err = w.offer(id, "jrnl_new")
	w.refused(err, fleet.Conflict, "lease.retired")
	_, err = w.accept(id, parsed(fleet.ParseJournalID("jrnl_new")))
	w.refused(err, fleet.Conflict, "lease.retired")
	_, err = w.Fleet.Intend(w.ctx(), registry.Intent{Replica: id, Want: fleet.IntentRun, Actor: "ann", Reason: "back"})
	w.refused(err, fleet.Conflict, "lease.retired")
	_, err = w.Fleet.Leave(w.ctx(), registry.Departure{Claim: w.claim(), Replica: id, PeerDID: didOf(id), Epoch: w.leases[id].Epoch, Offline: true})
	w.refused(err, fleet.LeaseLost, "lease.retired")
	w.expect(w.replica(id).Live.Status == fleet.ReplicaRetired, "it is %s", w.replica(id).Live.Status)
	rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Replicas, State: "retired"})
	w.must(err, "list")
	s, err := w.Reader.Status(w.ctx())
	w.must(err, "status")
	w.expect(len(rec.Replicas) == 1 && s.Replicas[fleet.ReplicaRetired] == 1, "%d are listed, status counts %s", len(rec.Replicas), text(s.Replicas))
}

func custodyRetry(w *World) {
	id := w.solo()
	w.settleAs(w.resolve("idle"), fleet.Settlement{Outcome: fleet.OutcomeCancelled, Verdict: fleet.VerdictNotStarted, Code: "host.not_ready"})
	w.settle(w.resolve("one"), fleet.OutcomeUnknown)
	w.depart(id, true)
	_, err := w.retire(id)
	w.must(err, "retire")
	w.register(replicaID(acme(), "b"))
	_, err = w.try("idle")
	w.refused(err, fleet.Conflict, registry.CodeRouteLost)
	_, err = w.try("one")
	w.refused(err, fleet.ReplicaUnavailable, "resolve.pinned_unavailable")
	_, err = w.Router.Explain(w.ctx(), request("idle"))
	w.must(err, "explain")
	_, err = w.Uncertain.Decide(w.ctx(), keyOf("one", 1), registry.Decision{
		Resolution: fleet.ResolvedDidNotHappen, By: "ann", Evidence: digest("looked"), Document: []byte(`{"signed":1}`)})
	w.must(err, "decide")
	_, err = w.try("one")
	w.refused(err, fleet.Conflict, registry.CodeRouteLost)
	w.expect(len(w.lookup("one").Attempts) == 1, "the route has %d attempts", len(w.lookup("one").Attempts))
}
