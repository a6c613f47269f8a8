package registry

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Reader gives operators and checks typed reads of every record.
type Reader interface {
	// List reads one page of one noun by keyset. Unknown ids are simply absent.
	List(ctx context.Context, selection Selection) (Records, error)
	// Status is the aggregate state of the fleet: no identities, fixed cardinality.
	Status(ctx context.Context) (Status, error)
	// Snapshot reads everything that Audit checks, at one point in time.
	Snapshot(ctx context.Context) (Snapshot, error)
	// Package returns the stored bytes of an admitted package.
	Package(ctx context.Context, digest fleet.Digest) ([]byte, error)
}

// Noun names a kind of record.
type Noun string

// The nouns, in the plural as operators type them.
const (
	Types           Noun = "types"
	Versions        Noun = "versions"
	Instances       Noun = "instances"
	Replicas        Noun = "replicas"
	Bindings        Noun = "bindings"
	Quotas          Noun = "quotas"
	Capabilities    Noun = "capabilities"
	Tenants         Noun = "tenants"
	Routes          Noun = "routes"
	Admissions      Noun = "admissions"
	Reconciliations Noun = "reconciliations"
	TrustRevisions  Noun = "trust"
	Revocations     Noun = "revocations"
	Events          Noun = "events"
	Archived        Noun = "archived"
)

// Nouns lists every noun in a stable order.
func Nouns() []Noun {
	return []Noun{Types, Versions, Instances, Replicas, Bindings, Quotas, Capabilities, Tenants, Routes, Admissions, Reconciliations, TrustRevisions, Revocations, Events, Archived}
}

// Bounds of one page of List. A page ends before the record that would lead it over
// MaxListBytes, counted as the store keeps its documents; a larger one is a page of its
// own. What is asked by id is not paged.
const (
	MaxListItems = 1000
	MaxListBytes = 4 << 20
)

// Selection picks records of one noun. Zero filters match all. Records are ordered
// by id, except routes, events, reconciliations and archived actions, which are newest
// first: those have the time that Since and Until ask for. A filter on what a noun does
// not have matches nothing.
type Selection struct {
	Noun     Noun
	IDs      []string // exact ids; no paging
	Tenant   fleet.TenantID
	Instance fleet.InstanceID
	Version  fleet.VersionID
	Replica  fleet.ReplicaID
	State    string    // status or state, as the record writes it
	Reserved bool      // routes: only those with an unsettled attempt
	Since    time.Time // assigned, happened, opened or archived at this time or later
	Until    time.Time // and before this time
	After    string    // Records.Next of the page before
	Limit    int       // 1..MaxListItems; 0 means 100
}

// Records is one page: the slice of the asked noun is filled.
type Records struct {
	Revision        uint64                    `json:"revision"`
	Types           []fleet.ConnectorType     `json:"types,omitempty"`
	Versions        []fleet.ConnectorVersion  `json:"versions,omitempty"`
	Instances       []fleet.ConnectorInstance `json:"instances,omitempty"`
	Replicas        []ReplicaRecord           `json:"replicas,omitempty"`
	Bindings        []fleet.CapabilityBinding `json:"bindings,omitempty"`
	Quotas          []fleet.QuotaPolicy       `json:"quotas,omitempty"`
	Capabilities    []CapabilityRecord        `json:"capabilities,omitempty"`
	Tenants         []TenantRecord            `json:"tenants,omitempty"`
	Routes          []RouteRecord             `json:"routes,omitempty"`
	Admissions      []Admission               `json:"admissions,omitempty"`
	Reconciliations []fleet.Reconciliation    `json:"reconciliations,omitempty"`
	Trust           []TrustRevision           `json:"trust,omitempty"`
	Revocations     []RevocationList          `json:"revocations,omitempty"`
	Events          []Event                   `json:"events,omitempty"`
	Archived        []ArchivedAction          `json:"archived,omitempty"`
	Next            string                    `json:"next,omitempty"` // "" at the end
}

// ReplicaRecord is a declared replica with its live state.
type ReplicaRecord struct {
	fleet.Replica
	Tenant fleet.TenantID    `json:"tenant_id"`
	Live   fleet.ReplicaLive `json:"live"`
}

// CapabilityRecord is one definition as one version offers it.
type CapabilityRecord struct {
	Definition     fleet.CapabilityDefinition `json:"definition"`
	ContractDigest fleet.Digest               `json:"contract_digest"`
	Version        fleet.VersionID            `json:"version_id"`
	Type           fleet.TypeID               `json:"type_id"`
}

// TenantRecord counts what a tenant has.
type TenantRecord struct {
	Tenant    fleet.TenantID `json:"tenant_id"`
	Instances int            `json:"instances"`
	Replicas  int            `json:"replicas"`
	Bindings  int            `json:"bindings"`
	Reserved  int            `json:"reserved"`
}

// Event is one entry of the registry's journal: who changed what, why, at which revision.
type Event struct {
	Sequence uint64    `json:"sequence"`
	At       time.Time `json:"at"`
	Revision uint64    `json:"revision"`
	Kind     string    `json:"kind"` // publication, transition, intent, lease, circuit, decision, …
	Subject  string    `json:"subject"`
	Actor    string    `json:"actor"`
	Reason   string    `json:"reason"`
	Detail   string    `json:"detail,omitempty"`
}

// ArchivedAction is what stays of an action whose route was moved to the archive, or
// whose content was given up after its retention, or both. Its id is taken for ever
// (G01, G44).
type ArchivedAction struct {
	Action     fleet.ActionID     `json:"action_id"`
	Tenant     fleet.TenantID     `json:"tenant_id"`
	Capability fleet.CapabilityID `json:"capability_id"`
	ArchivedAt time.Time          `json:"archived_at"`       // of whichever was archived first; it never changes
	Route      *ArchivedRoute     `json:"route,omitempty"`   // nil: it has a route still, or never had one
	Content    *ArchivedContent   `json:"content,omitempty"` // nil: the registry knows of none that was given up
}

// ArchivedRoute is a route that was moved to the archive.
type ArchivedRoute struct {
	ArchivedAt time.Time    `json:"archived_at"`
	Record     *RouteRecord `json:"record,omitempty"` // nil: the archive's document was exported and deleted
}

// ArchivedContent is how an action ended whose input, state and result are gone.
type ArchivedContent struct {
	State      string       `json:"state"` // completed, failed or cancelled
	EndedAt    time.Time    `json:"ended_at"`
	ArchivedAt time.Time    `json:"archived_at"`
	Evidence   fleet.Digest `json:"evidence_digest,omitzero"`
	Result     fleet.Digest `json:"result_digest,omitzero"` // of the bytes that were its result
	Tells      uint64       `json:"tells"`                  // how often its host was told
	ToldAt     time.Time    `json:"told_at,omitzero"`       // zero: its host has not heard yet
}

// Status is the aggregate state of the fleet.
type Status struct {
	At               time.Time                         `json:"at"`
	Revision         uint64                            `json:"revision"`
	Replicas         map[fleet.ReplicaStatus]int       `json:"replicas"` // by status
	ReplicasDeclared int                               `json:"replicas_declared"`
	Unhealthy        int                               `json:"unhealthy"`
	DrainIntent      int                               `json:"drain_intent"`
	LeasesEnding     int                               `json:"leases_ending"` // within 10 s
	CircuitsOpen     int                               `json:"circuits_open"`
	Capacity         uint64                            `json:"capacity"` // of ready replicas
	Active           uint64                            `json:"active"`   // reservations
	Routes           uint64                            `json:"routes"`
	Instances        int                               `json:"instances"`
	Bindings         int                               `json:"bindings"`
	Versions         map[fleet.VersionStatus]int       `json:"versions"`
	Uncertain        map[fleet.ReconciliationState]int `json:"uncertain"`
	OldestUncertain  time.Duration                     `json:"oldest_uncertain"`
}
