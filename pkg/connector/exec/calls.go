package exec

import (
	"context"
	"encoding/json"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Invoke implements connector.Connector.
func (a *Adapter) Invoke(ctx context.Context, call connector.Call) (connector.Result, error) {
	o := orderOf(call)
	o.Tool = a.byCap[call.Capability].Tool
	return a.call(ctx, verbInvoke, o, call.Credential)
}

// Plan implements connector.Planner.
func (a *Adapter) Plan(ctx context.Context, call connector.Call) (connector.Result, error) {
	o := orderOf(call)
	o.Tool = a.byCap[call.Capability].PlanTool
	return a.call(ctx, verbPlan, o, call.Credential)
}

// Commit implements connector.Committer.
func (a *Adapter) Commit(ctx context.Context, call connector.Call, plan json.RawMessage) (connector.Result, error) {
	o := orderOf(call)
	o.Tool, o.Plan = a.byCap[call.Capability].Tool, plan
	return a.call(ctx, verbCommit, o, call.Credential)
}

// Release implements connector.Compensator.
func (a *Adapter) Release(ctx context.Context, q connector.Query, plan json.RawMessage) (connector.Result, error) {
	o := orderAbout(q)
	o.Tool, o.Plan = a.byCap[q.Capability].CompensateTool, plan
	return a.call(ctx, verbRelease, o, q.Credential)
}

// Compensate implements connector.Compensator.
func (a *Adapter) Compensate(ctx context.Context, call connector.Call, done connector.Done) (connector.Result, error) {
	o := orderOf(call)
	o.Tool, o.Result, o.UndoneKey, o.Operation = a.byCap[call.Capability].CompensateTool, done.Output, done.IdempotencyKey, done.Operation
	return a.call(ctx, verbCompensate, o, call.Credential)
}

// Reconcile implements connector.Reconciler: the program answers {"found": …,
// "result": …}.
func (a *Adapter) Reconcile(ctx context.Context, q connector.Query) (connector.Finding, error) {
	o := orderAbout(q)
	if o.Tool = a.byCap[q.Capability].ReconcileTool; o.Tool == "" {
		return connector.Finding{}, fleet.Errorf(fleet.NotFound, "connector.reconcile", "the capability cannot be reconciled").
			Because("no reconcile tool was admitted for it")
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Patience)
	defer cancel()
	got, err := a.call(ctx, verbReconcile, o, q.Credential)
	if err != nil || got.Class != connector.Succeeded {
		return connector.Finding{}, unanswered(got.Why)
	}
	var said struct {
		Found  bool            `json:"found"`
		Result json.RawMessage `json:"result"`
	}
	if err := envelope.DecodeStrict(got.Output, envelope.Limits{}, &said); err != nil {
		return connector.Finding{}, unanswered("its answer cannot be read")
	}
	f := connector.Finding{Found: said.Found, Evidence: got.Output}
	if said.Found {
		f.Result = connector.Result{Class: connector.Succeeded, Output: said.Result}
	}
	return f, nil
}

func unanswered(why string) error {
	return fleet.Errorf(fleet.Unavailable, "connector.reconcile", "the program did not say whether it happened").Because("%s", why)
}
