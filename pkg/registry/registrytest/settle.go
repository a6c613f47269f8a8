package registrytest

import (
	"fmt"
	"reflect"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func settleCases() []Case {
	return []Case{
		{Name: "G07/second_settlement_reports_the_first",
			Why: "a retried settle must not release capacity twice, nor rewrite how the attempt ended",
			Run: settleTwice},
		{Name: "G07/every_field_of_the_assignment_is_compared",
			Why: "a settlement with one altered field is somebody else's, and must not release this reservation",
			Run: settleFieldSweep},
		{Name: "G06/older_fence_is_refused",
			Why: "the answer to a superseded attempt must not end the one that replaced it",
			Run: settleOldFence},
		{Name: "G06/unknown_action_is_refused",
			Why: "settling what was never routed must not succeed, nor tell whether the action exists",
			Run: settleUnknownAction},
		{Name: "G04/settlement_returns_everything",
			Why: "a leaked unit of capacity or quota never comes back by itself",
			Run: settleReturnsAll},
		{Name: "G42/every_indefinite_outcome_opens_a_record",
			Why: "an unknown outcome without a record is forgotten",
			Run: settleOpensRecord},
		{Name: "G07/outcomes_are_a_closed_set",
			Why: "a made-up outcome, or a made-up overdue, would bypass circuit and reconciliation",
			Run: settleClosedSet},
		{Name: "G07/settled_part_may_be_given_only_as_stored",
			Why: "an assignment that claims another ending than the stored one is not the stored one",
			Run: settleGivenSettlement},
	}
}

func settleTwice(w *World) {
	w.standard()
	a := w.resolve("one")
	evidence := digest("answer")
	first := w.settleAs(a, fleet.Settlement{Outcome: fleet.OutcomeCompleted, Code: "dispatch.completed", EvidenceDigest: evidence})
	w.expect(first.First, "the first settlement says it was not the first")
	w.advance(time.Second)
	again := w.settleAs(a, fleet.Settlement{Outcome: fleet.OutcomeUnknown, Code: "dispatch.timeout", PeerFault: true})
	w.expect(!again.First, "the second settlement says it was the first")
	w.expect(again.Settlement.Outcome == fleet.OutcomeCompleted && again.Settlement.Code == "dispatch.completed",
		"the second settlement reports %+v", again.Settlement)
	w.expect(again.Settlement.EvidenceDigest == evidence, "the evidence of the first is lost")
	w.expect(again.Settlement.SettledAt.Equal(first.Settlement.SettledAt), "the time of the first moved")
	w.expect(w.replica(a.Route.Replica).Live.Active == 0, "active is %d", w.replica(a.Route.Replica).Live.Active)
	w.expect(w.replica(a.Route.Replica).Live.Circuit.ConsecutiveUnknowns == 0, "the second settlement counted for the circuit")
	w.expect(len(w.snapshot().Reconciliations) == 0, "the second settlement opened a question")
}

// settleFieldSweep changes each field of a real assignment in turn, found by
// reflection so that a field added later cannot be forgotten.
func settleFieldSweep(w *World) {
	w.standard()
	a := w.resolve("one")
	n := 0
	for name, altered := range alterations(a) {
		n++
		if name == "Attempt.Settlement" {
			continue // its own case
		}
		_, err := w.Router.Settle(w.ctx(), altered, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
		if err == nil {
			w.Errorf("settled although %s differs", name)
		} else if !fleet.Is(err, fleet.FenceLost) {
			w.Errorf("%s differs: refused with %s (%v), want fence_lost", name, fleet.KindOf(err), err)
		}
	}
	w.expect(n >= 35, "only %d fields were altered", n)
	w.expect(!w.lookup("one").Current().Settled(), "an altered assignment settled the attempt")
	w.settle(a, fleet.OutcomeCompleted)
}

func settleOldFence(w *World) {
	w.standard()
	old := w.resolve("one")
	w.settle(old, fleet.OutcomeCancelled)
	fresh := w.resolve("one")
	w.expect(fresh.Attempt.Fence.Number == 2, "the second attempt has fence %d", fresh.Attempt.Fence.Number)
	w.expect(fresh.Attempt.Fence.Token != old.Attempt.Fence.Token, "the token is the same")
	_, err := w.Router.Settle(w.ctx(), old, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
	w.refused(err, fleet.FenceLost, "settle.fence_lost")
	w.expect(!w.lookup("one").Current().Settled(), "the old answer settled the new attempt")
}

func settleUnknownAction(w *World) {
	w.standard()
	a := w.resolve("one")
	a.Route.Action, a.Attempt.Action = actionID("never"), actionID("never")
	_, err := w.Router.Settle(w.ctx(), a, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
	w.refused(err, fleet.FenceLost, "settle.fence_lost")
}

func settleReturnsAll(w *World) {
	w.standard()
	for i, o := range []fleet.Outcome{fleet.OutcomeCompleted, fleet.OutcomeUnknown, fleet.OutcomeCancelled, fleet.OutcomeLeaseExpired} {
		a := w.resolve(fmt.Sprintf("n%d", i))
		w.expect(w.counter(fleet.ScopeTenant, "acme") == 1, "the tenant counter is %d while one is reserved", w.counter(fleet.ScopeTenant, "acme"))
		w.settle(a, o)
		w.expect(w.counter(fleet.ScopeTenant, "acme") == 0, "after %s the tenant counter is %d", o, w.counter(fleet.ScopeTenant, "acme"))
		w.expect(w.replica(a.Route.Replica).Live.Active == 0, "after %s active is not 0", o)
	}
}

func settleOpensRecord(w *World) {
	w.standard()
	for i, o := range []fleet.Outcome{fleet.OutcomeCompleted, fleet.OutcomeUnknown, fleet.OutcomeCancelled, fleet.OutcomeLeaseExpired} {
		name := fmt.Sprintf("n%d", i)
		w.settleAs(w.resolve(name), fleet.Settlement{Outcome: o, Code: "dispatch.test"})
		rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Reconciliations, IDs: []string{actionID(name).String()}})
		w.must(err, "list reconciliations")
		if o.Definite() {
			w.expect(len(rec.Reconciliations) == 0, "%s opened a record", o)
			continue
		}
		if len(rec.Reconciliations) != 1 {
			w.Fatalf("%s opened %d records", o, len(rec.Reconciliations))
		}
		r := rec.Reconciliations[0]
		w.expect(r.State == fleet.ReconcileOpen && r.Fence == 1 && r.Cause == "dispatch.test" && r.Tenant == acme(),
			"%s opened %+v", o, r)
	}
}

func settleClosedSet(w *World) {
	w.standard()
	a := w.resolve("one")
	for _, s := range []fleet.Settlement{
		{Outcome: "succeeded"}, {}, {Outcome: fleet.OutcomeUnknown, Code: "settle.overdue"},
	} {
		_, err := w.Router.Settle(w.ctx(), a, s)
		w.refused(err, fleet.Invalid, "")
	}
	w.expect(!w.lookup("one").Current().Settled(), "a refused settlement settled")
}

func settleGivenSettlement(w *World) {
	w.standard()
	a := w.resolve("one")
	forged := a
	forged.Attempt.Settlement = &fleet.Settlement{Outcome: fleet.OutcomeCancelled}
	_, err := w.Router.Settle(w.ctx(), forged, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
	w.refused(err, fleet.FenceLost, "settle.fence_lost")
	w.settle(a, fleet.OutcomeCompleted)
	receipt := w.settle(w.lookup("one").Assignment(), fleet.OutcomeCompleted)
	w.expect(!receipt.First, "the stored, settled assignment settled anew")
}

// alterations returns the assignment with each leaf of route and attempt changed, by
// the path of the field.
func alterations(a fleet.Assignment) map[string]fleet.Assignment {
	all := map[string]fleet.Assignment{}
	for _, part := range []string{"Route", "Attempt"} {
		walkLeaves(reflect.ValueOf(a).FieldByName(part), nil, func(path []int, name string) {
			fresh := a
			fresh.Attempt.Scopes = append([]fleet.Scope(nil), a.Attempt.Scopes...)
			leaf := reflect.ValueOf(&fresh).Elem().FieldByName(part)
			for _, i := range path {
				if leaf.Kind() == reflect.Slice {
					leaf = leaf.Index(i)
				} else {
					leaf = leaf.Field(i)
				}
			}
			alter(leaf)
			all[part+name] = fresh
		}, "")
	}
	return all
}

func walkLeaves(v reflect.Value, path []int, visit func(path []int, name string), name string) {
	structural := v.Kind() == reflect.Struct && v.NumField() > 0 && v.Type().Field(0).IsExported()
	switch {
	case structural:
		for i := range v.NumField() {
			walkLeaves(v.Field(i), append(append([]int(nil), path...), i), visit, name+"."+v.Type().Field(i).Name)
		}
	case v.Kind() == reflect.Slice && v.Len() > 0:
		walkLeaves(v.Index(0), append(append([]int(nil), path...), 0), visit, name+"[0]")
	default:
		visit(path, name)
	}
}

// alter changes one leaf to another valid value of its type.
func alter(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = x.Add(time.Millisecond)
	case *fleet.Digest:
		*x = digest("altered " + x.String())
	case interface{ UnmarshalText([]byte) error }:
		text := fmt.Sprint(v.Interface()) + "x"
		if err := x.UnmarshalText([]byte(text)); err != nil {
			panic("registrytest: " + err.Error())
		}
	case **fleet.Settlement:
		*x = &fleet.Settlement{Outcome: fleet.OutcomeCancelled}
	default:
		alterKind(v)
	}
}

func alterKind(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	default:
		panic("registrytest: teach alter about " + v.Type().String())
	}
}
