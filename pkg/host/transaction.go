package host

import (
	"context"
	"encoding/json"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// checkTransaction is the part of check 12 about transactions: the connector can do
// what the contract says, and an action that undoes another names one that this host
// completed, with its input.
func (h *Host) checkTransaction(d *delivery) (*refusal, error) {
	contract := h.contract(d.route.Capability)
	mode, able := contract.TransactionMode(), connector.Transacts(h.cfg.Connector)
	if mode != "" && (mode != fleet.TransactionPlanCommit || !able) {
		return refuse(CodeContract, "the connector cannot plan and commit as the contract says"), nil
	}
	asked, err := d.action.ReadTransaction()
	if err != nil {
		return refuse(CodeContract, "the action's part in a transaction cannot be read: "+reason(err)), nil
	}
	if asked.Compensates.IsZero() {
		return nil, nil
	}
	if _, undoes := h.cfg.Connector.(connector.Compensator); !undoes || !contract.Compensable() {
		return refuse(CodeContract, "the capability cannot be compensated"), nil
	}
	d.undoes = asked.Compensates
	target, known, err := h.cfg.Journal.Get(asked.Compensates)
	if err != nil {
		return nil, err
	}
	return h.checkUndone(d, target, known), nil
}

func (h *Host) contract(id fleet.CapabilityID) fleet.Contract {
	c, _ := h.cfg.Manifest.Capability(id)
	return c.Contract
}

// checkUndone looks at the action that is to be undone.
func (h *Host) checkUndone(d *delivery, target journal.Record, known bool) *refusal {
	switch {
	case !known || target.Tenant != d.route.Tenant:
		return refuse(CodeContract, "the action to undo is not known to this host")
	case target.Capability != d.route.Capability || target.InputDigest != d.input:
		return refuse(CodeContract, "the action to undo has another capability or input")
	case target.State != journal.Result || statusOf(target) != protocol.ResultCompleted || !target.Compensates.IsZero():
		return refuse(CodeContract, "the action to undo did not complete with an effect of its own")
	}
	return nil
}

func statusOf(r journal.Record) protocol.ResultStatus {
	var doc protocol.ActionResult
	if err := json.Unmarshal(r.Document, &doc); err != nil {
		return ""
	}
	return doc.Status
}

// claimUndo lets one action at a time undo another: the first, or one whose
// predecessor ended without having undone it.
func (h *Host) claimUndo(ctx context.Context, d *delivery) (*refusal, error) {
	defer h.locks.lock("undo " + d.undoes.String())()
	target, _, err := h.cfg.Journal.Get(d.undoes)
	if err != nil {
		return nil, err
	}
	instead := target.CompensatedBy
	if !instead.IsZero() && instead != d.route.Action {
		holder, known, err := h.cfg.Journal.Get(instead)
		if err != nil {
			return nil, err
		}
		over := !known || holder.State == journal.Cancelled || holder.State == journal.NotStarted ||
			holder.State == journal.Result && statusOf(holder) != protocol.ResultCompleted
		if !over {
			return refuse(CodeContract, "another action undoes it, or did"), nil
		}
	}
	return nil, h.change(ctx, d.undoes, func(r *journal.Record) error { return r.ClaimCompensation(d.route.Action, instead) })
}

// perform makes the call that the action asks for: it undoes, plans and commits, or
// invokes.
func (h *Host) perform(ctx, preparing context.Context, e *execution) (connector.Result, error) {
	switch {
	case !e.undoes.IsZero():
		return h.undo(ctx, e)
	case h.contract(e.call.Capability).TransactionMode() != "":
		return h.planAndCommit(ctx, preparing, e)
	}
	return h.call(ctx, e, func(ctx context.Context) (connector.Result, error) { return h.cfg.Connector.Invoke(ctx, e.call) })
}

func (h *Host) undo(ctx context.Context, e *execution) (connector.Result, error) {
	compensator, able := h.cfg.Connector.(connector.Compensator)
	target, _, err := h.cfg.Journal.Get(e.undoes)
	if err != nil {
		return connector.Result{}, err
	}
	if !able {
		return notStarted("the connector cannot undo"), nil
	}
	done := connector.Done{}
	if done.Query, err = h.query(ctx, target); err != nil {
		return notStarted("the credential cannot be resolved"), nil
	}
	var doc protocol.ActionResult
	if err := json.Unmarshal(target.Document, &doc); err == nil {
		done.Output = doc.Output
	}
	return h.call(ctx, e, func(ctx context.Context) (connector.Result, error) { return compensator.Compensate(ctx, e.call, done) })
}

func notStarted(why string) connector.Result {
	return connector.Result{Class: connector.NotStarted, Why: why}
}

// maxPlan bounds what a connector may have kept of a plan.
const maxPlan = 256 << 10

// planAndCommit prepares the call, keeps the plan, and commits it. Each step is on
// the disk before the next, so that a crash finds either a plan to give back or a
// call to ask about (G26).
func (h *Host) planAndCommit(ctx, preparing context.Context, e *execution) (connector.Result, error) {
	planner, plans := h.cfg.Connector.(connector.Planner)
	committer, commits := h.cfg.Connector.(connector.Committer)
	if !plans || !commits {
		return notStarted("the connector cannot plan and commit"), nil
	}
	durable := context.WithoutCancel(ctx)
	if err := h.change(durable, e.call.Action, (*journal.Record).StartPlan); err != nil {
		return connector.Result{}, err
	}
	planned, err := planner.Plan(preparing, e.call)
	if err != nil {
		planned = connector.Result{Class: connector.Unknown, Why: err.Error()}
	}
	if why := unusablePlan(planned); why != "" {
		planned = connector.Result{Class: connector.Unknown, Why: why}
	}
	switch {
	case planned.Class == connector.Failed || planned.Class == connector.NotStarted:
		return planned, nil // such a plan holds nothing
	case planned.Class != connector.Succeeded:
		return h.giveBack(durable, e, "the plan did not come back: "+planned.Why)
	}
	if err := h.change(durable, e.call.Action, func(r *journal.Record) error { return r.KeepPlan(planned.Output) }); err != nil {
		return connector.Result{}, err
	}
	if preparing.Err() != nil {
		return h.giveBack(durable, e, "it was cancelled, or its deadline passed, before the commit")
	}
	result, err := h.call(ctx, e, func(ctx context.Context) (connector.Result, error) {
		return committer.Commit(ctx, e.call, planned.Output)
	})
	if err == nil && result.Class == connector.NotStarted {
		return h.giveBack(durable, e, result.Why)
	}
	return result, err
}

func unusablePlan(r connector.Result) string {
	if r.Class != connector.Succeeded {
		return ""
	}
	if len(r.Output) > maxPlan {
		return "the plan is above 256 KiB"
	}
	if _, err := envelope.ParseStrict(r.Output, envelope.Limits{}); err != nil {
		return "the plan is not strict JSON"
	}
	return ""
}

// giveBack decides that nothing is committed, and has the plan given back. Not
// started is what it comes to when nothing is held; otherwise that is not known yet.
func (h *Host) giveBack(ctx context.Context, e *execution, why string) (connector.Result, error) {
	if err := h.change(ctx, e.call.Action, func(r *journal.Record) error {
		return r.StartRelease(evidence("plan_open", why))
	}); err != nil {
		return connector.Result{}, err
	}
	r, _, err := h.cfg.Journal.Get(e.call.Action)
	if err != nil {
		return connector.Result{}, err
	}
	if left := h.release(ctx, r); left != "" {
		return connector.Result{Class: connector.Unknown, Why: why + "; " + left}, nil
	}
	return notStarted(why), nil
}

// release has a plan given back; it says what stands in the way, or "".
func (h *Host) release(ctx context.Context, r journal.Record) string {
	compensator, able := h.cfg.Connector.(connector.Compensator)
	if !able {
		return "the connector cannot give the plan back"
	}
	ctx, done := context.WithTimeout(ctx, stopPatience)
	defer done()
	q, err := h.query(ctx, r)
	if err != nil {
		return "the credential cannot be resolved"
	}
	result, err := compensator.Release(ctx, q, r.Plan)
	switch {
	case err != nil:
		return "the plan may be held: " + fleet.Printable(err.Error(), 300)
	case result.Class == connector.Succeeded:
		return ""
	case result.Class == connector.Failed && result.Failure != nil:
		return "the plan is held: " + fleet.Printable(result.Failure.Message, 300)
	}
	return "the plan may be held: " + fleet.Printable(result.Why, 300)
}

// releaseAgain tries once more to have a plan given back that no execution is about
// any more. It is called with the action locked.
func (h *Host) releaseAgain(ctx context.Context, r journal.Record) (journal.Record, error) {
	left := h.release(ctx, r)
	why := journal.Refusal{Check: ruleOf(CodeNotReady).check, Code: CodeNotReady, Why: "it was planned, and the plan was given back"}
	return h.cfg.Journal.Apply(ctx, journal.Change{Action: r.Action, Mutate: func(r *journal.Record) error {
		if r.State != journal.Releasing {
			return nil
		}
		if left != "" {
			return r.Lose(evidence("plan_open", left))
		}
		return r.Abandon(why)
	}})
}
