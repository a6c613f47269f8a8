package host

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// askStatus answers what became of an action. Checks 5 to 12 do not apply (G43).
// An action that never ran is closed before the answer promises so (G41).
func (h *Host) askStatus(ctx context.Context, d *delivery, r journal.Record) (verdict, error) {
	if r.State == journal.Unknown || r.State == journal.Releasing {
		found, err := h.lookAgain(ctx, r)
		if err != nil {
			return verdict{}, err
		}
		return h.fromRecord(ctx, d, found)
	}
	if r.State != journal.None && r.State != journal.NotStarted {
		return h.fromRecord(ctx, d, r)
	}
	if r.Closed > 0 && d.route.Fence.Number <= r.Closed {
		return h.fromRecord(ctx, d, r)
	}
	if no := h.unpromisable(d, r); no != "" {
		return h.fromRecord(ctx, d, journal.Record{State: journal.Unknown, Highest: d.route.Fence, Evidence: evidence("journal_gap", no)})
	}
	if h.cfg.PlantUnsafe.OpenFence {
		return h.fromRecord(ctx, d, journal.Record{State: journal.NotStarted, Closed: d.route.Fence.Number})
	}
	why := journal.Refusal{Check: ruleOf(CodeNotReady).check, Code: CodeNotReady, Why: "a status query found it not started and closed it"}
	return h.shut(ctx, d, func(r *journal.Record) error { return r.Close(d.route.Action, d.route.Fence, why) })
}

// unpromisable says why this journal cannot speak for an action of which it knows
// no call, or "".
func (h *Host) unpromisable(d *delivery, r journal.Record) string {
	if d.route.Fence.Number == 0 {
		return "the question names no attempt"
	}
	if d.route.RegisteredJournal != h.cfg.Journal.ID() && d.route.Fence.Number > r.Decided && !h.cfg.PlantUnsafe.LostJournal {
		return "the attempt was reserved for another journal than this host's"
	}
	return ""
}

// shut changes the record and answers from it, in one transaction.
func (h *Host) shut(ctx context.Context, d *delivery, mutate func(*journal.Record) error) (verdict, error) {
	r, err := h.cfg.Journal.Apply(ctx, journal.Change{Action: d.route.Action, Mutate: mutate})
	if err != nil {
		return verdict{}, err
	}
	return h.fromRecord(ctx, d, r)
}

// askCancel stops an action if that is still possible, and answers by evidence.
func (h *Host) askCancel(ctx context.Context, d *delivery, r journal.Record) (verdict, error) {
	switch r.State {
	case journal.Result, journal.Cancelled:
		return h.fromRecord(ctx, d, r)
	case journal.Unknown:
		return h.askStatus(ctx, d, r)
	case journal.Releasing:
		found, err := h.lookAgain(ctx, r)
		if err != nil || found.State == journal.Releasing {
			return h.tell(ctx, d, found, err)
		}
		r = found
	case journal.Planning, journal.Planned:
		found, err := h.stopPreparing(ctx, r)
		if err != nil || found.State.Plans() {
			return h.tell(ctx, d, found, err)
		}
		return h.askCancel(ctx, d, found)
	case journal.CallStarted:
		return h.stop(ctx, d, r)
	}
	if no := h.unpromisable(d, r); no != "" && !r.State.Running() {
		return h.fromRecord(ctx, d, journal.Record{State: journal.Unknown, Highest: d.route.Fence, Evidence: evidence("journal_gap", no)})
	}
	doc, err := h.cancelledDocument(d.route.Action, d.route.Fence.Number)
	if err != nil {
		return verdict{}, err
	}
	r, err = h.cfg.Journal.Apply(ctx, journal.Change{Action: d.route.Action, Mutate: func(r *journal.Record) error {
		if s := r.State; s.Plans() || s == journal.CallStarted || s == journal.Result || s == journal.Unknown || s == journal.Releasing {
			return nil // the call was faster
		}
		return r.Cancel(d.route.Action, d.route.Fence, doc)
	}})
	if err != nil {
		return verdict{}, err
	}
	if r.State == journal.CallStarted || r.State.Plans() {
		return h.askCancel(ctx, d, r)
	}
	return h.fromRecord(ctx, d, r)
}

// tell answers from a record, unless an error stands in the way.
func (h *Host) tell(ctx context.Context, d *delivery, r journal.Record, err error) (verdict, error) {
	if err != nil {
		return verdict{}, err
	}
	return h.fromRecord(ctx, d, r)
}

// stopPreparing ends an execution that has planned and not yet committed, and waits a
// while for it to give the plan back.
func (h *Host) stopPreparing(ctx context.Context, r journal.Record) (journal.Record, error) {
	h.mu.Lock()
	e, running := h.running[r.Action]
	h.mu.Unlock()
	if !running {
		return r, stranded(r)
	}
	e.stopPreparing()
	patience, done := context.WithTimeout(ctx, stopPatience)
	defer done()
	select {
	case <-e.done:
	case <-patience.Done():
	}
	found, _, err := h.cfg.Journal.Get(r.Action)
	return found, err
}

func (h *Host) cancelledDocument(action fleet.ActionID, fence uint64) (json.RawMessage, error) {
	return sealDocument(protocol.ActionResult{ActionID: action, Status: protocol.ResultCancelled}, h.receipt(fence, "cancel", nil))
}

// stopPatience bounds what a connector may take to cancel or to reconcile.
const stopPatience = 10 * time.Second

// stop asks the connector to stop a call under way. Only its evidence ends the
// action; otherwise the answer is that it still runs.
func (h *Host) stop(ctx context.Context, d *delivery, r journal.Record) (verdict, error) {
	canceller, able := h.cfg.Connector.(connector.Canceller)
	if !able {
		r.Evidence = evidence("cancel", "the call was made and the connector cannot stop it")
		return h.fromRecord(ctx, d, r)
	}
	asked, done := context.WithTimeout(ctx, stopPatience)
	defer done()
	var result connector.Result
	q, err := h.query(asked, r)
	if err == nil {
		result, err = canceller.Cancel(asked, q)
	}
	if err != nil {
		r.Evidence = evidence("cancel", "the connector did not say whether the call was stopped")
		return h.fromRecord(ctx, d, r)
	}
	doc, err := h.stopped(r, result)
	if err != nil {
		return verdict{}, err
	}
	if doc == nil {
		r.Evidence = evidence("cancel", result.Why)
		return h.fromRecord(ctx, d, r)
	}
	return h.shut(ctx, d, func(r *journal.Record) error {
		if r.State != journal.CallStarted {
			return nil // the call ended by itself meanwhile
		}
		return r.Finish(doc)
	})
}

// stopped is the result that a connector's evidence of a cancel amounts to; nil
// when it is none. A call proved not to have had an effect is cancelled.
func (h *Host) stopped(r journal.Record, result connector.Result) (json.RawMessage, error) {
	result = usable(result)
	switch {
	case result.Class.Definite():
		return h.resultDocument(r.Action, r.Fence, result, "cancel")
	case result.Class == connector.NotStarted:
		return h.cancelledDocument(r.Action, r.Fence)
	}
	return nil, nil
}

// query asks about a record, with the credential as it is now.
func (h *Host) query(ctx context.Context, r journal.Record) (connector.Query, error) {
	q := connector.Query{
		Action: r.Action, Capability: r.Capability, IdempotencyKey: r.IdempotencyKey, Operation: r.Operation, Compensates: r.Compensates,
	}
	_, ref := h.Credentials().use("", h.cfg.SecretRef)
	if ref == "" || h.cfg.Secrets == nil {
		return q, nil
	}
	credential, err := h.cfg.Secrets.Get(ctx, ref)
	if err == nil {
		q.Credential = credential
	}
	return q, err
}
