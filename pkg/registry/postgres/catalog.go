package postgres

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/catalog"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// shownSQL finds what a filter shows, best version first for each capability
// (catalog.Prefer), and cuts the page: at most $6 items plus one, and only the
// definitions that fit into $7 bytes; the first always fits (catalog.Fit). Sizes are
// stored, so no document is read that is not sent. $1 tenant ("" unbound), $2 exact,
// $3 folded search, $4 profile, $5 the id after which the page starts.
const shownSQL = `WITH shown AS (
	SELECT DISTINCT ON (c.capability_id) c.capability_id, c.version_id, c.size, c.search
	FROM (
		SELECT r.capability_id, r.version_id FROM aip.route_candidate r
		WHERE $1::text <> '' AND r.tenant_id = $1::text AND r.weight > 0 AND r.capability_id > $5::text COLLATE "C"
		UNION ALL
		SELECT a.capability_id, a.version_id FROM aip.capability a
		JOIN aip.connector_version v ON v.id = a.version_id
		JOIN aip.version_status s ON s.version_id = v.id
		JOIN aip.connector_type t ON t.id = v.type_id
		WHERE $1::text = '' AND s.status = 'active' AND v.qualified AND t.enabled AND a.claimed
			AND a.capability_id > $5::text COLLATE "C"
	) offered
	JOIN aip.capability c ON c.version_id = offered.version_id AND c.capability_id = offered.capability_id
	JOIN aip.connector_version v ON v.id = c.version_id
	WHERE ($2::text = '' OR c.capability_id = $2::text) AND ($4::text = '' OR $4::text = ANY (c.profiles))
	ORDER BY c.capability_id, v.release_sequence, c.version_id
), matching AS (
	SELECT capability_id, version_id, size FROM shown
	WHERE $3::text = '' OR strpos(search, $3::text) > 0
	ORDER BY capability_id LIMIT $6::integer + 1
), summed AS (
	SELECT capability_id, version_id, row_number() OVER w AS at, sum(size) OVER w AS bytes
	FROM matching WINDOW w AS (ORDER BY capability_id)
)
SELECT m.capability_id, c.contract_digest,
	CASE WHEN m.at <= $6::integer AND (m.at = 1 OR m.bytes <= $7::bigint) THEN c.definition END
FROM summed m JOIN aip.capability c ON c.version_id = m.version_id AND c.capability_id = m.capability_id
ORDER BY m.capability_id`

// Get implements registry.Catalog.
func (r *Registry) Get(ctx context.Context, tenant fleet.TenantID, capability fleet.CapabilityID) (registry.Listing, error) {
	absent := fleet.Errorf(fleet.NotFound, "catalog.capability", "the tenant has no such capability")
	if tenant.IsZero() || capability.IsZero() {
		return registry.Listing{}, absent
	}
	page, err := r.page(ctx, tenant, registry.CatalogQuery{Exact: capability, Limit: 1})
	if err != nil {
		return registry.Listing{}, err
	}
	if len(page.Items) == 0 {
		return registry.Listing{}, absent
	}
	return page.Items[0], nil
}

// Query implements registry.Catalog.
func (r *Registry) Query(ctx context.Context, tenant fleet.TenantID, q registry.CatalogQuery) (registry.CatalogPage, error) {
	q, err := q.Checked()
	if err != nil {
		return registry.CatalogPage{}, err
	}
	return r.page(ctx, tenant, q)
}

// page reads the revision and the page under the shared publication lock, in one
// transaction, so that both are of one publication (G14).
func (r *Registry) page(ctx context.Context, tenant fleet.TenantID, q registry.CatalogQuery) (registry.CatalogPage, error) {
	p, err := r.catalogPool()
	if err != nil {
		return registry.CatalogPage{}, err
	}
	var page registry.CatalogPage
	err = p.use(ctx, func(conn *pgxpool.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			page, err = r.pageIn(ctx, tx, tenant, q)
			return err
		})
	})
	if err != nil {
		return registry.CatalogPage{}, refused("catalog.unavailable", "the catalog could not be read", err)
	}
	return page, nil
}

func (r *Registry) pageIn(ctx context.Context, tx pgx.Tx, tenant fleet.TenantID, q registry.CatalogQuery) (registry.CatalogPage, error) {
	page := registry.CatalogPage{Items: []registry.Listing{}}
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock_shared(4871, 1)"); err != nil {
		return page, err
	}
	if err := tx.QueryRow(ctx, "SELECT revision FROM aip.catalog_revision").Scan(&page.Revision); err != nil {
		return page, err
	}
	filter := q.Filter(tenant)
	var after fleet.CapabilityID
	if q.Cursor != "" {
		var err error
		if after, err = catalog.Open(r.cursor, page.Revision, filter, q.Cursor); err != nil {
			return page, err
		}
	}
	who := tenant.String()
	if q.Unbound {
		who = ""
	} else if who == "" {
		return page, nil // neither a tenant nor permission to see unbound ones: nothing
	}
	rows, err := tx.Query(ctx, shownSQL, who, q.Exact.String(), strings.ToLower(q.Search), q.Profile, after.String(), q.Limit, registry.MaxPageBytes)
	if err != nil {
		return page, err
	}
	more, err := collect(rows, &page)
	if more && err == nil {
		page.Next = catalog.Seal(r.cursor, page.Revision, filter, page.Items[len(page.Items)-1].Definition.ID)
	}
	return page, err
}

// collect fills the page; more reports whether something matching was left out.
func collect(rows pgx.Rows, page *registry.CatalogPage) (more bool, err error) {
	var id, digest string
	var definition []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &digest, &definition}, func() error {
		if definition == nil {
			more = true
			return nil
		}
		item := registry.Listing{Revision: page.Revision}
		if err := json.Unmarshal(definition, &item.Definition); err != nil {
			return malformed(err)
		}
		var err error
		if item.ContractDigest, err = fleet.ParseDigest(digest); err != nil {
			return malformed(err)
		}
		page.Items = append(page.Items, item)
		return nil
	})
	return more, err
}

// searchText is what a search looks through: id, name and description, each folded
// and apart from the others.
func searchText(d fleet.CapabilityDefinition) string {
	return strings.ToLower(d.ID.String() + "\x1f" + d.Name + "\x1f" + d.Description)
}
