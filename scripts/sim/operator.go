package sim

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// drains is the operator who drains each replica for a while, or not.
func (w *world) drains() {
	for _, m := range w.hosts {
		for i, d := range w.windows(1, 5*time.Second, 30*time.Second, "drain", m.replica.String()) {
			w.run(func() {
				if !sleep(w.ctx, d.from) || !w.intend(m.replica, fleet.IntentDrain) {
					return
				}
				w.fault(drained, m.replica.String())
				sleep(w.ctx, d.until-d.from+time.Duration(i))
				w.intend(m.replica, fleet.IntentRun)
			})
		}
	}
}

func (w *world) intend(replica fleet.ReplicaID, want fleet.OperatorIntent) bool {
	_, err := w.registry.Intend(w.ctx, registry.Intent{Replica: replica, Want: want, Actor: "olga", Reason: "sim"})
	return err == nil
}

// accepts is the operator who lets hosts come back whose journal was lost (G25).
func (w *world) accepts() {
	for n := 0; sleep(w.ctx, w.between(time.Second, 3*time.Second, "accept", "", n)); n++ {
		listed, err := w.registry.List(w.ctx, registry.Selection{Noun: registry.Replicas})
		if err != nil {
			continue
		}
		for _, r := range listed.Replicas {
			if r.Live.OfferedJournal.IsZero() {
				continue
			}
			_, err := w.registry.AcceptJournal(w.ctx, registry.JournalAcceptance{Replica: r.ID, Journal: r.Live.OfferedJournal, Actor: "olga", Reason: "sim"})
			if err == nil {
				w.fault(accepted, r.ID.String())
			}
		}
	}
}

// decides is the operator who answers what only a person can: by what the product
// says, once nothing of the action is under way any more. In every eighth world the
// operator is hasty while the storm lasts: says of anything open that it did not
// happen, at once, and asks nobody.
func (w *world) decides() {
	for n := 0; ; n++ {
		haste := w.rash() && w.stormy()
		rest := w.between(3*time.Second, 6*time.Second, "operator", "", n)
		if haste {
			rest /= 4
		}
		if !sleep(w.ctx, rest) {
			return
		}
		for _, rec := range w.questions(haste) {
			switch {
			case haste:
				w.fault(hasty, rec.Action.String())
				w.allow(rec.Action)
				w.decide(rec, fleet.ResolvedDidNotHappen)
			case !w.still(rec):
			case w.provider.happened(rec.Action) > 0:
				w.decide(rec, fleet.ResolvedHappened)
			default:
				w.decide(rec, fleet.ResolvedDidNotHappen)
			}
		}
	}
}

// questions lists what waits for an operator; open ones as well if all is set.
func (w *world) questions(all bool) []fleet.Reconciliation {
	states := []fleet.ReconciliationState{fleet.ReconcileOperator}
	if all {
		states = append(states, fleet.ReconcileOpen)
	}
	var found []fleet.Reconciliation
	for _, state := range states {
		listed, err := w.registry.List(w.ctx, registry.Selection{
			Noun: registry.Reconciliations, State: string(state), Limit: registry.MaxListItems,
		})
		if err == nil {
			found = append(found, listed.Reconciliations...)
		}
	}
	return found
}

// allow notes that a decision made without asking allows one more effect.
func (w *world) allow(id fleet.ActionID) {
	w.wrong.Lock()
	defer w.wrong.Unlock()
	w.allowed[id]++
}

// still reports whether nothing of the action moves: no message, no execution, no call.
func (w *world) still(rec fleet.Reconciliation) bool {
	if !w.network.idle(rec.Action) || !w.provider.idle(rec.Action) {
		return false
	}
	p := w.machineOf(rec.Replica).now.Load()
	if p == nil {
		return false
	}
	r, _, err := p.journal.Get(rec.Action)
	return err == nil && !r.State.Running()
}

func (w *world) machineOf(id fleet.ReplicaID) *machine {
	for _, m := range w.hosts {
		if m.replica == id {
			return m
		}
	}
	return nil
}

func (w *world) decide(rec fleet.Reconciliation, outcome fleet.Resolution) {
	now := time.Now()
	evidence := fleet.DigestBytes([]byte("what the product's support said of " + rec.Action.String()))
	doc := protocol.Decision{
		ActionID: rec.Action, Fence: rec.Fence, Replica: rec.Replica, Outcome: outcome, EvidenceDigest: evidence,
		Reason: "asked the product", DecidedBy: "olga", DecidedAt: now.UTC(),
	}
	message := must(protocol.NewMessage(doc, fleet.NewMessageID(now), now))
	sealed := must(envelope.Seal(message, envelope.Decision, w.operator, w.machineOf(rec.Replica).signer().DID()))
	_, err := w.registry.Decide(w.ctx, registry.ReconciliationKey{Action: rec.Action, Fence: rec.Fence}, registry.Decision{
		Resolution: outcome, By: w.operator.DID().String(), Evidence: evidence, Document: sealed,
	})
	if err != nil && !fleet.Is(err, fleet.Conflict) { // decided meanwhile
		w.broken("G38", rec.Action.String(), "the operator cannot decide: "+err.Error())
	}
}
