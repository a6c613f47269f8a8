package action

import (
	"encoding/json"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Request is the body of POST /aip/v1/actions. There is no tenant in it (G19).
type Request struct {
	ID             fleet.ActionID     `json:"action_id,omitzero"` // minted when absent
	Capability     fleet.CapabilityID `json:"capability_id"`
	Input          json.RawMessage    `json:"input"`
	IdempotencyKey string             `json:"idempotency_key,omitempty"`
	TimeoutMS      uint64             `json:"timeout_ms,omitempty"`
	Mode           string             `json:"mode,omitempty"`
}

// CancelRequest is the body of POST /aip/v1/actions/{id}/cancel.
type CancelRequest struct {
	Reason string `json:"reason,omitempty"`
}

// View is an action as clients see it.
type View struct {
	ID              fleet.ActionID     `json:"id"`
	Tenant          fleet.TenantID     `json:"tenant_id"`
	Capability      fleet.CapabilityID `json:"capability_id"`
	Principal       string             `json:"principal"`
	State           State              `json:"state"`
	Final           bool               `json:"final"`
	Mode            string             `json:"mode"`
	IdempotencyKey  string             `json:"idempotency_key,omitempty"`
	Runs            uint32             `json:"runs"`
	Fence           uint64             `json:"fence"`
	CancelRequested bool               `json:"cancel_requested,omitempty"`
	CreatedAt       time.Time          `json:"created_at"`
	UpdatedAt       time.Time          `json:"updated_at"`
	Deadline        time.Time          `json:"deadline"`
	Result          json.RawMessage    `json:"result,omitempty"` // the action_result document
	Evidence        fleet.Digest       `json:"evidence_digest,omitzero"`
	Problem         *Problem           `json:"error,omitempty"`
}

// ViewOf shows a record to its tenant.
func ViewOf(r Record) View {
	return View{
		ID: r.ID, Tenant: r.Tenant, Capability: r.Capability, Principal: r.Principal,
		State: r.State, Final: r.State.Final(), Mode: r.Mode, IdempotencyKey: r.IdempotencyKey,
		Runs: r.Runs, Fence: r.Fence, CancelRequested: r.CancelRequested,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Deadline: r.Deadline,
		Result: r.Result, Evidence: r.Evidence, Problem: r.Problem,
	}
}

// ViewPage is the body of GET /aip/v1/actions.
type ViewPage struct {
	Actions []View `json:"actions"`
	Next    string `json:"next,omitempty"`
}

// Readiness is the body of GET /ready.
type Readiness struct {
	Ready     bool            `json:"ready"`
	CheckedAt time.Time       `json:"checked_at"`
	Parts     []ReadinessPart `json:"parts"`
}

// ReadinessPart is one part that must be ready.
type ReadinessPart struct {
	Name   string `json:"name"`
	Ready  bool   `json:"ready"`
	Detail string `json:"detail,omitempty"`
}
