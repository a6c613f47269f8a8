package fleet

import (
	"encoding/json"
)

// Limits of what one release may carry, in the canonical form.
const (
	MaxCapabilities      = 512       // capabilities of one version
	MaxManifestBytes     = 4 << 20   // canonical manifest
	MaxDefinitionBytes   = 256 << 10 // one capability definition
	MaxSecretRefBytes    = 2048      // secret_provider_ref
	MaxCredentialRef     = 256       // credential_revision_ref
	MaxTopologyLabel     = 128       // region, zone, capacity class
	MaxTimeToLiveSeconds = 24 * 3600 // an action's own deadline
)

// SideEffects classifies what invoking a capability may change.
type SideEffects string

// Side effects, from none to irreversible.
const (
	EffectNone        SideEffects = "none"        // pure
	EffectRead        SideEffects = "read"        // reads the product
	EffectWrite       SideEffects = "write"       // creates or changes, reversible
	EffectDestructive SideEffects = "destructive" // deletes or irreversible
)

// Mutates reports whether a repetition could do harm.
func (s SideEffects) Mutates() bool { return s == EffectWrite || s == EffectDestructive }

// Idempotency says who, if anyone, recognises a repeat of a call.
type Idempotency string

// Idempotency claims.
const (
	IdempotencyNone        Idempotency = "none"         // a repeat is a second effect
	IdempotencyNatural     Idempotency = "natural"      // a repeat changes nothing more
	IdempotencyProviderKey Idempotency = "provider_key" // the provider recognises our key (G25)
)

// Contract is what a capability promises about being invoked (AIP 1.0).
type Contract struct {
	SideEffects  SideEffects     `json:"side_effects"`
	Idempotency  Idempotency     `json:"idempotency"`
	Execution    json.RawMessage `json:"execution,omitempty"`
	Data         json.RawMessage `json:"data,omitempty"`
	Credentials  json.RawMessage `json:"credentials,omitempty"`
	Approval     json.RawMessage `json:"approval,omitempty"`
	SLA          json.RawMessage `json:"sla,omitempty"`
	Transaction  json.RawMessage `json:"transaction,omitempty"`
	Compensation json.RawMessage `json:"compensation,omitempty"`
}

// TransactionPlanCommit is the one transaction mode: the call is planned, the plan
// is kept, and then committed or given back.
const TransactionPlanCommit = "plan_commit"

// TransactionMode is the mode of the transaction contract; "" without one. A
// contract that cannot be read is a mode that nobody knows.
func (c Contract) TransactionMode() string {
	if len(c.Transaction) == 0 || string(c.Transaction) == "null" {
		return ""
	}
	var said struct {
		Mode string `json:"mode"`
	}
	if err := json.Unmarshal(c.Transaction, &said); err != nil || said.Mode == "" {
		return "unreadable"
	}
	return said.Mode
}

// Compensable reports whether an effect can be undone by a later action. A contract
// that cannot be read promises it, so that it is refused where it cannot be kept.
func (c Contract) Compensable() bool {
	if len(c.Compensation) == 0 || string(c.Compensation) == "null" {
		return false
	}
	var said struct {
		Supported *bool `json:"supported"`
	}
	if err := json.Unmarshal(c.Compensation, &said); err != nil || said.Supported == nil {
		return true
	}
	return *said.Supported
}

// CapabilityDefinition is one entry of an AIP manifest.
type CapabilityDefinition struct {
	ID           CapabilityID    `json:"id"`
	Name         string          `json:"name"`
	Kind         string          `json:"kind"` // "tool"
	Description  string          `json:"description,omitempty"`
	Risk         string          `json:"risk,omitempty"` // low, medium, high, critical
	InputSchema  json.RawMessage `json:"input_schema"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Contract     Contract        `json:"contract"`
}

// ContractDigest identifies the contract a definition makes: its canonical bytes
// without name and description. The canonical form is the caller's business, so
// it is passed in.
func ContractDigest(canonical []byte) Digest { return DigestBytes(canonical) }

// Implementation is a version's claim of how it serves one capability.
type Implementation struct {
	Capability    CapabilityID `json:"capability_id"`
	Adapter       string       `json:"adapter"`                  // one of Adapters
	Tool          string       `json:"tool"`                     // the adapter's name for it
	ReconcileTool string       `json:"reconcile_tool,omitempty"` // asks the provider about an earlier call by idempotency key
	// PlanTool prepares a call without its effect; Tool then commits the plan. It is
	// set exactly when the contract is transactional, together with CompensateTool.
	PlanTool string `json:"plan_tool,omitempty"`
	// CompensateTool gives back a plan that is not committed, and undoes a call.
	CompensateTool string `json:"compensate_tool,omitempty"`
	// Profiles are the supported ones, such as "aip.core.v1".
	Profiles []string `json:"profiles,omitempty"`
}

// Adapters: how a host reaches the connector of a release.
const (
	AdapterMCP     = "mcp"      // an MCP server as a child process, over its standard streams
	AdapterMCPHTTP = "mcp-http" // an MCP server over Streamable HTTP; the artifact names it
	AdapterHTTP    = "http"     // requests made from the templates in the artifact
	AdapterExec    = "exec"     // a program, started for each call
	AdapterGo      = "go"       // Go code in the host's own process, which is the artifact
)

// Adapters lists every adapter.
func Adapters() []string {
	return []string{AdapterExec, AdapterGo, AdapterHTTP, AdapterMCP, AdapterMCPHTTP}
}

// Adapter is the one adapter of a manifest's implementations, or "" when they
// name several, or none.
func (m Manifest) Adapter() string {
	adapter := ""
	for _, i := range m.Implementations {
		if adapter != "" && i.Adapter != adapter {
			return ""
		}
		adapter = i.Adapter
	}
	return adapter
}

// Manifest is the AIP manifest of a release: what it offers, and how.
type Manifest struct {
	AIPVersion      string                 `json:"aip_version"` // "1.0"
	Name            string                 `json:"name"`
	Version         string                 `json:"version"`
	Capabilities    []CapabilityDefinition `json:"capabilities"`
	Implementations []Implementation       `json:"implementations"`
}

// Implementation returns the claim for a capability.
func (m Manifest) Implementation(id CapabilityID) (Implementation, bool) {
	for _, i := range m.Implementations {
		if i.Capability == id {
			return i, true
		}
	}
	return Implementation{}, false
}

// Capability returns the definition of a capability.
func (m Manifest) Capability(id CapabilityID) (CapabilityDefinition, bool) {
	for _, c := range m.Capabilities {
		if c.ID == id {
			return c, true
		}
	}
	return CapabilityDefinition{}, false
}
