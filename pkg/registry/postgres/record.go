package postgres

import (
	"encoding/json"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// The rows of the hot tables, as to_json writes them and json_populate_record reads
// them: every tag is a column. Settlement sends whole rows back to be compared, so a
// column that is not here cannot be settled.

type routeRow struct {
	Action                string    `json:"action_id"`
	Capability            string    `json:"capability_id"`
	Tenant                string    `json:"tenant_id"`
	Instance              string    `json:"instance_id"`
	Replica               string    `json:"replica_id"`
	Endpoint              string    `json:"endpoint"`
	Region                string    `json:"region"`
	Zone                  string    `json:"zone"`
	CapacityClass         string    `json:"capacity_class"`
	PeerPrincipalID       string    `json:"peer_principal_id"`
	PeerPrincipalKind     string    `json:"peer_principal_kind"`
	PeerDID               string    `json:"peer_did"`
	TrustDomain           string    `json:"trust_domain"`
	TransportProfile      string    `json:"transport_profile"`
	Version               string    `json:"version_id"`
	ManifestDigest        string    `json:"manifest_digest"`
	ArtifactDigest        string    `json:"artifact_digest"`
	CatalogRevision       uint64    `json:"catalog_revision"`
	BindingPolicyRevision uint64    `json:"binding_policy_revision"`
	CredentialRevisionRef string    `json:"credential_revision_ref"`
	QuotaPolicyRef        string    `json:"quota_policy_ref"`
	QuotaPolicyRevision   uint64    `json:"quota_policy_revision"`
	Priority              uint32    `json:"key_priority"`
	RegionMatch           bool      `json:"key_region_match"`
	ZoneMatch             bool      `json:"key_zone_match"`
	ActiveBefore          uint32    `json:"key_active_before"`
	AssignedAt            time.Time `json:"assigned_at"`
}

func (r routeRow) route() (fleet.RouteAssignment, error) {
	var p reading
	route := fleet.RouteAssignment{
		Action: read(&p, fleet.ParseActionID, r.Action), Capability: read(&p, fleet.ParseCapabilityID, r.Capability),
		Tenant: read(&p, fleet.ParseTenantID, r.Tenant), Instance: read(&p, fleet.ParseInstanceID, r.Instance),
		Replica: read(&p, fleet.ParseReplicaID, r.Replica), Endpoint: r.Endpoint,
		Topology:       fleet.Topology{Region: r.Region, Zone: r.Zone, CapacityClass: r.CapacityClass},
		Peer:           fleet.Peer{PrincipalID: r.PeerPrincipalID, PrincipalKind: r.PeerPrincipalKind, DID: r.PeerDID, TrustDomain: r.TrustDomain, TransportProfile: r.TransportProfile},
		Version:        read(&p, fleet.ParseVersionID, r.Version),
		ManifestDigest: read(&p, fleet.ParseDigest, r.ManifestDigest), ArtifactDigest: read(&p, fleet.ParseDigest, r.ArtifactDigest),
		CatalogRevision: r.CatalogRevision, BindingPolicyRevision: r.BindingPolicyRevision,
		CredentialRevisionRef: r.CredentialRevisionRef, QuotaPolicyRef: r.QuotaPolicyRef, QuotaPolicyRevision: r.QuotaPolicyRevision,
		OrderingKeys: fleet.OrderingKeys{Priority: r.Priority, RegionMatch: r.RegionMatch, ZoneMatch: r.ZoneMatch, ActiveBefore: r.ActiveBefore},
		AssignedAt:   r.AssignedAt.UTC(),
	}
	return route, p.err
}

func rowOfRoute(a fleet.RouteAssignment) routeRow {
	return routeRow{
		Action: a.Action.String(), Capability: a.Capability.String(), Tenant: a.Tenant.String(),
		Instance: a.Instance.String(), Replica: a.Replica.String(), Endpoint: a.Endpoint,
		Region: a.Topology.Region, Zone: a.Topology.Zone, CapacityClass: a.Topology.CapacityClass,
		PeerPrincipalID: a.Peer.PrincipalID, PeerPrincipalKind: a.Peer.PrincipalKind, PeerDID: a.Peer.DID,
		TrustDomain: a.Peer.TrustDomain, TransportProfile: a.Peer.TransportProfile,
		Version: a.Version.String(), ManifestDigest: a.ManifestDigest.String(), ArtifactDigest: a.ArtifactDigest.String(),
		CatalogRevision: a.CatalogRevision, BindingPolicyRevision: a.BindingPolicyRevision,
		CredentialRevisionRef: a.CredentialRevisionRef, QuotaPolicyRef: a.QuotaPolicyRef, QuotaPolicyRevision: a.QuotaPolicyRevision,
		Priority: a.OrderingKeys.Priority, RegionMatch: a.OrderingKeys.RegionMatch, ZoneMatch: a.OrderingKeys.ZoneMatch,
		ActiveBefore: a.OrderingKeys.ActiveBefore, AssignedAt: a.AssignedAt,
	}
}

type attemptRow struct {
	Action            string    `json:"action_id"`
	Fence             uint64    `json:"fence"`
	Token             string    `json:"token"`
	LeaseEpoch        uint64    `json:"lease_epoch"`
	Journal           string    `json:"journal_id"`
	ScopeKinds        []string  `json:"scope_kinds"`
	ScopeKeys         []string  `json:"scope_keys"`
	ScopeLimits       []uint32  `json:"scope_limits"`
	CircuitThreshold  uint32    `json:"circuit_threshold"`
	CircuitOpenMillis uint32    `json:"circuit_open_millis"`
	CircuitProbes     uint32    `json:"circuit_probes"`
	Probe             bool      `json:"probe"`
	ReservedAt        time.Time `json:"reserved_at"`
	Deadline          time.Time `json:"deadline"`
}

func (r attemptRow) attempt() (fleet.Attempt, error) {
	var p reading
	a := fleet.Attempt{
		Action: read(&p, fleet.ParseActionID, r.Action), Fence: fleet.Fence{Number: r.Fence, Token: r.Token},
		LeaseEpoch: r.LeaseEpoch, Journal: optional(&p, fleet.ParseJournalID, r.Journal), Scopes: r.scopes(),
		CircuitUsed: fleet.CircuitPolicy{FailureThreshold: r.CircuitThreshold, OpenMillis: r.CircuitOpenMillis, HalfOpenProbes: r.CircuitProbes},
		Probe:       r.Probe, ReservedAt: r.ReservedAt.UTC(), Deadline: r.Deadline.UTC(),
	}
	return a, p.err
}

func (r attemptRow) scopes() []fleet.Scope {
	scopes := []fleet.Scope{}
	for i, kind := range r.ScopeKinds {
		scopes = append(scopes, fleet.Scope{Kind: fleet.ScopeKind(kind), Key: r.ScopeKeys[i], Limit: r.ScopeLimits[i]})
	}
	return scopes
}

func rowOfAttempt(a fleet.Attempt) attemptRow {
	r := attemptRow{
		Action: a.Action.String(), Fence: a.Fence.Number, Token: a.Fence.Token,
		LeaseEpoch: a.LeaseEpoch, Journal: a.Journal.String(),
		ScopeKinds: []string{}, ScopeKeys: []string{}, ScopeLimits: []uint32{},
		CircuitThreshold: a.CircuitUsed.FailureThreshold, CircuitOpenMillis: a.CircuitUsed.OpenMillis, CircuitProbes: a.CircuitUsed.HalfOpenProbes,
		Probe: a.Probe, ReservedAt: a.ReservedAt, Deadline: a.Deadline,
	}
	for _, s := range a.Scopes {
		r.ScopeKinds = append(r.ScopeKinds, string(s.Kind))
		r.ScopeKeys = append(r.ScopeKeys, s.Key)
		r.ScopeLimits = append(r.ScopeLimits, s.Limit)
	}
	return r
}

type settlementRow struct {
	Action         string    `json:"action_id"`
	Fence          uint64    `json:"fence"`
	Outcome        string    `json:"outcome"`
	Code           string    `json:"code"`
	Verdict        string    `json:"verdict"`
	PeerFault      bool      `json:"peer_fault"`
	EvidenceDigest string    `json:"evidence_digest"`
	SettledAt      time.Time `json:"settled_at"`
}

func (r settlementRow) settlement() (fleet.Settlement, error) {
	var p reading
	return fleet.Settlement{
		Outcome: fleet.Outcome(r.Outcome), Code: r.Code, Verdict: fleet.Verdict(r.Verdict), PeerFault: r.PeerFault,
		EvidenceDigest: optional(&p, fleet.ParseDigest, r.EvidenceDigest), SettledAt: r.SettledAt.UTC(),
	}, p.err
}

func rowOfSettlement(a fleet.Attempt, s fleet.Settlement) settlementRow {
	return settlementRow{
		Action: a.Action.String(), Fence: a.Fence.Number, Outcome: string(s.Outcome), Code: s.Code, Verdict: string(s.Verdict),
		PeerFault: s.PeerFault, EvidenceDigest: s.EvidenceDigest.String(), SettledAt: s.SettledAt,
	}
}

type liveRow struct {
	Replica          string    `json:"replica_id"`
	Capacity         uint32    `json:"capacity"`
	Status           string    `json:"status"`
	Intent           string    `json:"intent"`
	Healthy          bool      `json:"healthy"`
	NotReadyBeats    uint32    `json:"not_ready_beats"`
	LeaseEpoch       uint64    `json:"lease_epoch"`
	LeaseSequence    uint64    `json:"lease_sequence"`
	LeaseExpiresAt   time.Time `json:"lease_expires_at"`
	LastBeatAt       time.Time `json:"last_beat_at"`
	InFlight         uint32    `json:"in_flight"`
	Journal          string    `json:"journal_id"`
	Active           uint32    `json:"active"`
	CircuitState     string    `json:"circuit_state"`
	CircuitUnknowns  uint32    `json:"circuit_unknowns"`
	CircuitOpenUntil time.Time `json:"circuit_open_until"`
	CircuitOpenedAt  time.Time `json:"circuit_opened_at"`
	CircuitOpenings  uint32    `json:"circuit_openings"`
	CircuitProbesOut uint32    `json:"circuit_probes_out"`
	RingPosition     int64     `json:"ring"`
}

func (r liveRow) live() (fleet.ReplicaLive, error) {
	var p reading
	return fleet.ReplicaLive{
		ID: read(&p, fleet.ParseReplicaID, r.Replica), Status: fleet.ReplicaStatus(r.Status), Intent: fleet.OperatorIntent(r.Intent),
		Healthy: r.Healthy, NotReadyBeats: r.NotReadyBeats, LeaseEpoch: r.LeaseEpoch, LeaseSequence: r.LeaseSequence,
		LeaseExpiresAt: instant(r.LeaseExpiresAt), LastBeatAt: instant(r.LastBeatAt), InFlight: r.InFlight,
		Journal: optional(&p, fleet.ParseJournalID, r.Journal), Active: r.Active, Circuit: r.circuit(),
	}, p.err
}

func (r liveRow) circuit() fleet.Circuit {
	return fleet.Circuit{
		State: fleet.CircuitState(r.CircuitState), ConsecutiveUnknowns: r.CircuitUnknowns,
		OpenUntil: instant(r.CircuitOpenUntil), OpenedAt: instant(r.CircuitOpenedAt),
		Openings: r.CircuitOpenings, ProbesOut: r.CircuitProbesOut,
	}
}

type earlierRow struct {
	Fence      uint64 `json:"fence"`
	Journal    string `json:"journal_id"`
	Outcome    string `json:"outcome"`
	Verdict    string `json:"verdict"`
	Resolution string `json:"resolution"`
}

// end is what the attempt tells a later one; a decision made since counts (G25).
func (r earlierRow) end() (fleet.AttemptEnd, error) {
	var p reading
	a := fleet.Attempt{Fence: fleet.Fence{Number: r.Fence}, Journal: optional(&p, fleet.ParseJournalID, r.Journal)}
	if r.Outcome != "" {
		a.Settlement = &fleet.Settlement{Outcome: fleet.Outcome(r.Outcome), Verdict: fleet.Verdict(r.Verdict)}
	}
	end := registry.End(a)
	if v := registry.VerdictOf(fleet.Resolution(r.Resolution)); v != "" {
		end.Verdict = v
	}
	return end, p.err
}

// assignmentOf decodes what a resolve answers: two rows, and what is known of
// earlier attempts as JSON.
func assignmentOf(route, attempt row, earlier []byte) (fleet.Assignment, error) {
	var out fleet.Assignment
	r, err := routeOf(fieldsOf(route))
	if err == nil {
		out.Route, err = r.route()
	}
	if err != nil {
		return fleet.Assignment{}, malformed(err)
	}
	a, err := attemptOf(fieldsOf(attempt))
	if err == nil {
		out.Attempt, err = a.attempt()
	}
	if err != nil {
		return fleet.Assignment{}, malformed(err)
	}
	if len(earlier) <= len("[]") {
		return out, nil
	}
	var rows []earlierRow
	if err := json.Unmarshal(earlier, &rows); err != nil {
		return fleet.Assignment{}, malformed(err)
	}
	for _, row := range rows {
		end, err := row.end()
		if err != nil {
			return fleet.Assignment{}, malformed(err)
		}
		out.Earlier = append(out.Earlier, end)
	}
	return out, nil
}

// reading collects the first error of many parses.
type reading struct{ err error }

func read[T any](p *reading, parse func(string) (T, error), text string) T {
	v, err := parse(text)
	if err != nil && p.err == nil {
		p.err = err
	}
	return v
}

// optional accepts "" as the zero value.
func optional[T any](p *reading, parse func(string) (T, error), text string) T {
	if text == "" {
		var zero T
		return zero
	}
	return read(p, parse, text)
}

// instant gives a stored time as the contracts write it: UTC, and the zero time for
// the year 1 that stands for none.
func instant(t time.Time) time.Time {
	if t.Year() <= 1 {
		return time.Time{}
	}
	return t.UTC()
}

func malformed(err error) *fleet.Error {
	return fleet.Errorf(fleet.Internal, "registry.record", "a stored record is not well formed").
		Caused(err).Advise("aipctl registry audit")
}
