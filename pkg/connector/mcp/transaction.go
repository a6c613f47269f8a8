package mcp

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// metaPlan carries the plan to the tool that commits it.
const metaPlan = "aip/plan"

// What the compensate tool is asked for, in its argument phase.
const (
	phaseRelease    = "release"
	phaseCompensate = "compensate"
)

// Plan implements connector.Planner through the capability's plan tool.
func (a *Adapter) Plan(ctx context.Context, call connector.Call) (connector.Result, error) {
	tool := a.byCap[call.Capability].PlanTool
	if tool == "" {
		return notStarted("no tool plans the capability"), nil
	}
	return a.invoke(ctx, call, &sdk.CallToolParams{Name: tool, Arguments: call.Input, Meta: metaOf(call)}), nil
}

// Commit implements connector.Committer: the capability's own tool gets the plan.
func (a *Adapter) Commit(ctx context.Context, call connector.Call, plan json.RawMessage) (connector.Result, error) {
	meta := metaOf(call)
	meta[metaPlan] = plan
	return a.invoke(ctx, call, &sdk.CallToolParams{Name: a.byCap[call.Capability].Tool, Arguments: call.Input, Meta: meta}), nil
}

// Release implements connector.Compensator.
func (a *Adapter) Release(ctx context.Context, q connector.Query, plan json.RawMessage) (connector.Result, error) {
	return a.takeBack(ctx, connector.Call{Action: q.Action, Capability: q.Capability, IdempotencyKey: q.IdempotencyKey}, map[string]any{
		"phase": phaseRelease, "idempotency_key": q.IdempotencyKey, "plan": plan,
	})
}

// Compensate implements connector.Compensator.
func (a *Adapter) Compensate(ctx context.Context, call connector.Call, done connector.Done) (connector.Result, error) {
	return a.takeBack(ctx, call, map[string]any{
		"phase": phaseCompensate, "idempotency_key": done.IdempotencyKey, "result": done.Output,
	})
}

func (a *Adapter) takeBack(ctx context.Context, call connector.Call, arguments map[string]any) (connector.Result, error) {
	tool := a.byCap[call.Capability].CompensateTool
	if tool == "" {
		return connector.Result{}, fleet.Errorf(fleet.NotFound, "connector.compensate", "no tool takes back what the capability does")
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		return connector.Result{}, err
	}
	return a.invoke(ctx, call, &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(raw), Meta: metaOf(call)}), nil
}
