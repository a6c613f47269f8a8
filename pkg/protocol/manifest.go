package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Types of the discovery messages.
const (
	TypeManifestRequest     = "aip.discovery.v1.manifest_request"
	TypeManifestResponse    = "aip.discovery.v1.manifest_response"
	TypeEventStreamResponse = "aip.discovery.v1.event_stream_response"
)

// ManifestRequest asks a peer for its manifest.
type ManifestRequest struct{}

// BodyKey implements Document.
func (ManifestRequest) BodyKey() string { return "manifest_request" }

// MessageType implements Document.
func (ManifestRequest) MessageType() string { return TypeManifestRequest }

// Validate implements Document.
func (ManifestRequest) Validate() error { return nil }

// ManifestResponse answers with the manifest and its digest.
type ManifestResponse struct {
	Manifest fleet.Manifest `json:"manifest"`
	Digest   fleet.Digest   `json:"manifest_digest"`
}

// BodyKey implements Document.
func (ManifestResponse) BodyKey() string { return "manifest_response" }

// MessageType implements Document.
func (ManifestResponse) MessageType() string { return TypeManifestResponse }

// Validate implements Document.
func (r ManifestResponse) Validate() error {
	return first(
		ValidateManifest(r.Manifest),
		refuse(r.Digest.IsZero(), "manifest_response", "manifest_digest", missing),
	)
}

// EventStreamResponse is one page of an action's or a tenant's events.
type EventStreamResponse struct {
	Events []json.RawMessage `json:"events"`
	Next   string            `json:"next,omitempty"` // where to go on, "" at the end
}

// BodyKey implements Document.
func (EventStreamResponse) BodyKey() string { return "event_stream_response" }

// MessageType implements Document.
func (EventStreamResponse) MessageType() string { return TypeEventStreamResponse }

// Validate implements Document.
func (r EventStreamResponse) Validate() error {
	return refuse(r.Events == nil, "event_stream_response", "events", missing)
}

// ReadManifest reads a release's manifest strictly and validates it. Unknown
// members are refused: what an admission cannot evaluate must not become part of
// what it admits (G34). It also returns the canonical form of the received
// document, whose digest is the manifest's.
func ReadManifest(data []byte) (fleet.Manifest, []byte, error) {
	var m fleet.Manifest
	v, err := envelope.ParseStrict(data, envelope.Limits{MaxBytes: 2 * fleet.MaxManifestBytes, SafeIntegers: true})
	if err != nil {
		return m, nil, err
	}
	if err := v.Decode(&m, envelope.RefuseUnknown); err != nil {
		return m, nil, err
	}
	canonical := v.Canonical()
	if len(canonical) > fleet.MaxManifestBytes {
		return m, nil, invalid(manifestDoc, "manifest", "its canonical form is above 4 MiB")
	}
	return m, canonical, ValidateManifest(m)
}

const manifestDoc = "manifest"

// ValidateManifest checks names, bounds, words and that every capability has
// exactly one implementation. Whether schemas compile is the admission's check.
func ValidateManifest(m fleet.Manifest) error {
	err := first(
		refuse(m.AIPVersion != AIPVersion, manifestDoc, "aip_version", "only version 1.0 is known"),
		refuse(m.Name == "" || badText(m.Name, 256), manifestDoc, "name", "it needs 1..256 bytes"),
		refuse(m.Version == "" || badText(m.Version, 128), manifestDoc, "version", "it needs 1..128 bytes"),
		refuse(len(m.Capabilities) == 0 || len(m.Capabilities) > fleet.MaxCapabilities, manifestDoc, "capabilities", "it needs 1..512"),
		refuse(len(m.Implementations) != len(m.Capabilities), manifestDoc, "implementations", "it needs exactly one for each capability"),
	)
	if err != nil {
		return err
	}
	seen := make(map[fleet.CapabilityID]bool, len(m.Capabilities))
	for i, c := range m.Capabilities {
		place := fmt.Sprintf("capabilities[%d]", i)
		if err := first(
			refuse(seen[c.ID], manifestDoc, place+".id", "it occurs twice"),
			validateCapability(place, c),
		); err != nil {
			return err
		}
		seen[c.ID] = true
	}
	return validateImplementations(m, seen)
}

func validateImplementations(m fleet.Manifest, offered map[fleet.CapabilityID]bool) error {
	done := make(map[fleet.CapabilityID]bool, len(m.Implementations))
	for i, impl := range m.Implementations {
		place := fmt.Sprintf("implementations[%d]", i)
		if err := first(
			refuse(!offered[impl.Capability], manifestDoc, place+".capability_id", "no capability has this id"),
			refuse(done[impl.Capability], manifestDoc, place+".capability_id", "it occurs twice"),
			refuse(!word(impl.Adapter), manifestDoc, place+".adapter", "it is not a lower-case word"),
			refuse(impl.Tool == "" || badText(impl.Tool, 256), manifestDoc, place+".tool", "it needs 1..256 bytes"),
			refuse(badText(impl.ReconcileTool, 256), manifestDoc, place+".reconcile_tool", tooLong),
			refuse(badText(impl.PlanTool, 256), manifestDoc, place+".plan_tool", tooLong),
			refuse(badText(impl.CompensateTool, 256), manifestDoc, place+".compensate_tool", tooLong),
		); err != nil {
			return err
		}
		done[impl.Capability] = true
	}
	return nil
}

func validateCapability(place string, c fleet.CapabilityDefinition) error {
	size, err := definitionSize(c)
	return first(
		err,
		refuse(c.ID.IsZero(), manifestDoc, place+".id", missing),
		refuse(c.Name == "" || badText(c.Name, 256), manifestDoc, place+".name", "it needs 1..256 bytes"),
		refuse(!word(c.Kind), manifestDoc, place+".kind", "it is not a lower-case word"),
		refuse(!riskWord(c.Risk), manifestDoc, place+".risk", notListed),
		refuse(!isObject(c.InputSchema), manifestDoc, place+".input_schema", "it is not an object"),
		refuse(len(c.OutputSchema) > 0 && !isObject(c.OutputSchema), manifestDoc, place+".output_schema", "it is not an object"),
		refuse(!effectWord(c.Contract.SideEffects), manifestDoc, place+".contract.side_effects", notListed),
		refuse(!idempotencyWord(c.Contract.Idempotency), manifestDoc, place+".contract.idempotency", notListed),
		refuse(size > fleet.MaxDefinitionBytes, manifestDoc, place, "its canonical form is above 256 KiB"),
	)
}

func definitionSize(c fleet.CapabilityDefinition) (int, error) {
	if len(c.InputSchema) == 0 {
		return 0, nil // refused by name after this
	}
	canonical, err := envelope.CanonicalOf(c)
	return len(canonical), err
}

func effectWord(s fleet.SideEffects) bool {
	switch s {
	case fleet.EffectNone, fleet.EffectRead, fleet.EffectWrite, fleet.EffectDestructive:
		return true
	}
	return false
}

func idempotencyWord(s fleet.Idempotency) bool {
	return s == fleet.IdempotencyNone || s == fleet.IdempotencyNatural || s == fleet.IdempotencyProviderKey
}

func riskWord(s string) bool {
	switch s {
	case "", "low", "medium", "high", "critical":
		return true
	}
	return false
}

func word(s string) bool {
	if s == "" || len(s) > 64 || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func isObject(raw json.RawMessage) bool {
	trimmed := bytes.TrimSpace(raw)
	return len(trimmed) > 0 && trimmed[0] == '{'
}
