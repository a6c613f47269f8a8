package registrytest

import (
	"fmt"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func uncertainCases() []Case {
	return []Case{
		{Name: "G38/due_claims_for_a_while", Why: "two reconcilers must not ask the same host at once, and a dead one must not keep a question", Run: uncertainDue},
		{Name: "G38/probes_are_kept_and_counted", Why: "an operator decides by what was asked and answered", Run: uncertainNotes},
		{Name: "G38/operator_records_are_not_asked_automatically", Why: "asking for ever hides that a person must decide", Run: uncertainOperator},
		{Name: "G38/first_decision_stands", Why: "two decisions about one attempt make one of them wrong", Run: uncertainDecide},
		{Name: "G38/decision_needs_its_evidence", Why: "a decision without evidence is a guess", Run: uncertainEvidence},
		{Name: "G06/late_answer_is_evidence_still", Why: "a signed answer that comes after the decision is appended, never dropped", Run: uncertainLate},
		{Name: "G07/decision_does_not_rewrite_the_settlement", Why: "how an attempt was released is history", Run: uncertainSettlement},
	}
}

func keyOf(action string, fence uint64) registry.ReconciliationKey {
	return registry.ReconciliationKey{Action: actionID(action), Fence: fence}
}

func (w *World) due(limit int) []fleet.Reconciliation {
	w.Helper()
	d, err := w.Uncertain.Due(w.ctx(), limit, time.Minute)
	w.must(err, "due")
	return d
}

func (w *World) note(action string, answer string, next time.Duration, state fleet.ReconciliationState) {
	w.Helper()
	err := w.Uncertain.Note(w.ctx(), keyOf(action, 1), fleet.Probe{At: w.now, Answer: answer, Evidence: digest(answer)}, w.now.Add(next), state)
	w.must(err, "note")
}

func (w *World) uncertainRecord(action string) fleet.Reconciliation {
	w.Helper()
	rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Reconciliations, IDs: []string{actionID(action).String()}})
	w.must(err, "list reconciliations")
	if len(rec.Reconciliations) != 1 {
		w.Fatalf("%d records of %s", len(rec.Reconciliations), action)
	}
	return rec.Reconciliations[0]
}

func uncertainDue(w *World) {
	w.standard()
	w.expect(len(w.due(10)) == 0, "something is due in a quiet registry")
	for i := range 3 {
		w.settle(w.resolve(fmt.Sprintf("n%d", i)), fleet.OutcomeUnknown)
	}
	w.settle(w.resolve("fine"), fleet.OutcomeCompleted)
	w.expect(len(w.due(2)) == 2, "the limit was not kept")
	w.expect(len(w.due(10)) == 1, "a claimed record was handed out again")
	w.expect(len(w.due(10)) == 0, "a claimed record was handed out again")
	w.advance(time.Minute + time.Second)
	w.expect(len(w.due(10)) == 3, "after the hold the records did not come back")
	w.note("n0", "running", 10*time.Second, fleet.ReconcileOpen)
	w.advance(20 * time.Second)
	d := w.due(10)
	w.expect(len(d) == 1 && d[0].Action == actionID("n0"), "due is %s", text(d))
}

func uncertainNotes(w *World) {
	w.standard()
	w.settle(w.resolve("one"), fleet.OutcomeUnknown)
	for i := range registry.MaxProbes + 5 {
		w.note("one", fmt.Sprintf("answer %d", i), time.Second, fleet.ReconcileOpen)
	}
	r := w.uncertainRecord("one")
	w.expect(r.ProbeCount == registry.MaxProbes+5 && len(r.Probes) == registry.MaxProbes, "%d probes are kept of %d", len(r.Probes), r.ProbeCount)
	w.expect(r.Probes[0].Answer == "answer 5" && r.Probes[registry.MaxProbes-1].Answer == "answer 24", "kept are %q to %q", r.Probes[0].Answer, r.Probes[len(r.Probes)-1].Answer)
	err := w.Uncertain.Note(w.ctx(), keyOf("none", 1), fleet.Probe{}, w.now, fleet.ReconcileOpen)
	w.refused(err, fleet.NotFound, "reconcile.record")
	err = w.Uncertain.Note(w.ctx(), keyOf("one", 1), fleet.Probe{}, w.now, fleet.ReconcileResolved)
	w.refused(err, fleet.Invalid, "")
}

func uncertainOperator(w *World) {
	w.standard()
	w.settle(w.resolve("one"), fleet.OutcomeUnknown)
	w.note("one", "unknown", 0, fleet.ReconcileOperator)
	w.advance(time.Hour)
	w.expect(len(w.due(10)) == 0, "a record for an operator is due")
	w.expect(w.uncertainRecord("one").State == fleet.ReconcileOperator, "its state is %s", w.uncertainRecord("one").State)
}

func uncertainDecide(w *World) {
	w.standard()
	w.settle(w.resolve("one"), fleet.OutcomeUnknown)
	d := registry.Decision{Resolution: fleet.ResolvedHappened, By: "ann", Evidence: digest("file"), Document: []byte(`{"signed":1}`)}
	first, err := w.Uncertain.Decide(w.ctx(), keyOf("one", 1), d)
	w.must(err, "decide")
	w.expect(first.State == fleet.ReconcileResolved && first.Resolution == d.Resolution && first.ResolvedBy == "ann" &&
		first.Evidence == d.Evidence && string(first.Decision) == string(d.Document), "the record is %s", text(first))
	w.advance(time.Second)
	again, err := w.Uncertain.Decide(w.ctx(), keyOf("one", 1), d)
	w.must(err, "decide again")
	w.expect(text(first) == text(again), "the repeat gives %s", text(again))
	d.Resolution = fleet.ResolvedDidNotHappen
	_, err = w.Uncertain.Decide(w.ctx(), keyOf("one", 1), d)
	w.refused(err, fleet.Conflict, "reconcile.decided")
	_, err = w.Uncertain.Decide(w.ctx(), keyOf("one", 2), d)
	w.refused(err, fleet.NotFound, "reconcile.record")
	w.advance(time.Hour)
	w.expect(len(w.due(10)) == 0, "a resolved record is due")
}

func uncertainEvidence(w *World) {
	w.standard()
	w.settle(w.resolve("one"), fleet.OutcomeUnknown)
	for what, d := range map[string]registry.Decision{
		"no evidence":  {Resolution: fleet.ResolvedCompleted, By: "host"},
		"nobody":       {Resolution: fleet.ResolvedCompleted, Evidence: digest("e")},
		"no document":  {Resolution: fleet.ResolvedHappened, By: "ann", Evidence: digest("e")},
		"made-up word": {Resolution: "probably", By: "ann", Evidence: digest("e")},
	} {
		_, err := w.Uncertain.Decide(w.ctx(), keyOf("one", 1), d)
		w.expect(fleet.Is(err, fleet.Invalid), "%s: %v", what, err)
	}
	w.expect(w.uncertainRecord("one").State == fleet.ReconcileOpen, "a refused decision decided")
}

func uncertainLate(w *World) {
	w.standard()
	w.settle(w.resolve("one"), fleet.OutcomeUnknown)
	_, err := w.Uncertain.Decide(w.ctx(), keyOf("one", 1), registry.Decision{Resolution: fleet.ResolvedNotStarted, By: "host", Evidence: digest("first")})
	w.must(err, "decide")
	w.note("one", "completed", time.Second, fleet.ReconcileOpen)
	r := w.uncertainRecord("one")
	w.expect(r.State == fleet.ReconcileResolved && r.Resolution == fleet.ResolvedNotStarted, "the late answer changed the decision: %s", text(r))
	w.expect(len(r.Probes) == 1 && r.Probes[0].Answer == "completed", "the late answer was dropped: %s", text(r))
	w.advance(time.Minute)
	w.expect(len(w.due(10)) == 0, "the late answer made it due again")
}

func uncertainSettlement(w *World) {
	w.standard()
	w.settle(w.resolve("one"), fleet.OutcomeUnknown)
	before := text(w.lookup("one"))
	_, err := w.Uncertain.Decide(w.ctx(), keyOf("one", 1), registry.Decision{Resolution: fleet.ResolvedCompleted, By: "host", Evidence: digest("e")})
	w.must(err, "decide")
	w.expect(text(w.lookup("one")) == before, "the route became %s", text(w.lookup("one")))
}
