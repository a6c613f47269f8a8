package host

import (
	"context"
	"encoding/json"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
)

// recoverPage is how many records Recover reads at a time.
const recoverPage = 200

// Recover asks the connector about every action whose outcome is unknown (G26), and
// has plans given back that an earlier process left. It
// returns how many were settled and how many stay unknown. It is called once the
// connector is up; the host may serve meanwhile.
func (h *Host) Recover(ctx context.Context) (settled, open int, err error) {
	var after fleet.ActionID
	for {
		page, err := h.cfg.Journal.List(after, recoverPage)
		if err != nil || len(page) == 0 {
			return settled, open, err
		}
		for _, r := range page {
			after = r.Action
			if r.State != journal.Unknown && r.State != journal.Releasing {
				continue
			}
			found, err := h.recoverOne(ctx, r.Action)
			if err != nil {
				return settled, open, err
			}
			if found.State == journal.Unknown || found.State == journal.Releasing {
				open++
			} else {
				settled++
			}
		}
	}
}

func (h *Host) recoverOne(ctx context.Context, action fleet.ActionID) (journal.Record, error) {
	defer h.locks.lock(action.String())()
	r, _, err := h.cfg.Journal.Get(action)
	if err != nil {
		return r, err
	}
	return h.lookAgain(ctx, r)
}

// lookAgain asks the connector about what is not known: an outcome, or whether a plan
// is held. It is called with the action locked.
func (h *Host) lookAgain(ctx context.Context, r journal.Record) (journal.Record, error) {
	switch r.State {
	case journal.Unknown:
		return h.reconcile(ctx, r)
	case journal.Releasing:
		h.mu.Lock()
		_, busy := h.running[r.Action]
		h.mu.Unlock()
		if busy {
			return r, nil // the execution itself is about it
		}
		return h.releaseAgain(ctx, r)
	}
	return r, nil
}

// reconcile asks the connector about one unknown outcome and journals what it
// learns. Only an effect that was found settles anything: not to find one proves
// nothing, since the call may still be on its way. It is called with the action
// locked.
func (h *Host) reconcile(ctx context.Context, r journal.Record) (journal.Record, error) {
	known, doc := h.inquire(ctx, r)
	return h.cfg.Journal.Apply(ctx, journal.Change{Action: r.Action, Mutate: func(r *journal.Record) error {
		if doc != nil {
			return r.Finish(doc)
		}
		return r.Lose(known)
	}})
}

// inquire returns the result document of an effect that was found, or what is
// known otherwise.
func (h *Host) inquire(ctx context.Context, r journal.Record) (known, doc json.RawMessage) {
	reconciler, able := h.cfg.Connector.(connector.Reconciler)
	if !able {
		return evidence("unknown", "the connector cannot be asked about earlier calls"), nil
	}
	ctx, done := context.WithTimeout(ctx, stopPatience)
	defer done()
	q, err := h.query(ctx, r)
	if err != nil {
		return evidence("unknown", "the credential cannot be resolved"), nil
	}
	found, err := reconciler.Reconcile(ctx, q)
	if err != nil {
		return evidence("unknown", "the connector did not answer: "+fleet.Printable(err.Error(), 300)), nil
	}
	if !found.Found {
		return foundNothing(found.Evidence), nil
	}
	if !h.byOurKey(r.Capability) {
		return evidence("unknown", "an effect was found, and the contract does not say that it is this action's"), nil
	}
	result := usable(found.Result)
	if !result.Class.Definite() {
		return evidence("unknown", "an effect was found, and not its result"), nil
	}
	doc, err = h.resultDocument(r.Action, r.Fence, result, "reconcile")
	if err != nil {
		return evidence("unknown", "the result that was found cannot be signed"), nil
	}
	return nil, doc
}

// byOurKey reports whether the provider recognises the action's own key, so that
// what it finds under that key is this action's effect.
func (h *Host) byOurKey(capability fleet.CapabilityID) bool {
	c, ok := h.cfg.Manifest.Capability(capability)
	return ok && c.Contract.Idempotency == fleet.IdempotencyProviderKey
}

// maxEvidence bounds what a connector's own words may add to an answer.
const maxEvidence = 16 << 10

func foundNothing(said json.RawMessage) json.RawMessage {
	if len(said) > maxEvidence {
		said = nil
	}
	raw, err := json.Marshal(map[string]any{"reason": "not_found", "detail": "the product knows no effect; one may still be on its way", "answer": said})
	if err != nil {
		return evidence("not_found", "the product knows no effect; one may still be on its way")
	}
	return raw
}
