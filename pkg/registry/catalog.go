package registry

import (
	"context"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Catalog answers which capabilities a tenant may call (G14-G16, G18).
type Catalog interface {
	// Get returns one capability of the tenant. Not visible, not existing and not
	// yours are the same answer: Kind NotFound, code catalog.capability.
	Get(ctx context.Context, tenant fleet.TenantID, capability fleet.CapabilityID) (Listing, error)
	// Query returns one page, ordered by capability id bytewise. A cursor from
	// another revision is refused with StaleCursor; a forged one, or one of another
	// tenant or filter, with Invalid.
	Query(ctx context.Context, tenant fleet.TenantID, query CatalogQuery) (CatalogPage, error)
}

// Catalog limits, enforced by the registry and not by the caller.
const (
	DefaultPageItems = 50
	MaxPageItems     = 200
	MaxPageBytes     = 4 << 20
	MaxSearchBytes   = 256
)

// CatalogQuery filters and bounds one page.
type CatalogQuery struct {
	Search  string // literal, case-folded, in id, name and description; at most MaxSearchBytes
	Exact   fleet.CapabilityID
	Profile string
	Limit   int    // 1..MaxPageItems; 0 means DefaultPageItems
	Cursor  string // from an earlier page, "" for the first
	// Unbound asks for every active definition, bound or not. It is for internal
	// administration; with it the tenant may be zero. A query with neither returns nothing.
	Unbound bool
}

// Listing is one definition and the revision at which it was read.
type Listing struct {
	Definition     fleet.CapabilityDefinition `json:"definition"`
	ContractDigest fleet.Digest               `json:"contract_digest"`
	Revision       uint64                     `json:"revision"`
}

// CatalogPage is one page of one revision.
type CatalogPage struct {
	Revision uint64    `json:"revision"`
	Items    []Listing `json:"items"`
	Next     string    `json:"next,omitempty"` // cursor, "" at the end
}
