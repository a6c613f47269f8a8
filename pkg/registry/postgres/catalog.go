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
// $3 folded search, $4 profile, $5 the id after which the page starts. The revision
// comes with every row, and alone when nothing is shown: being one statement, it is of
// the same publication as the page (G14), without a lock.
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
SELECT r.revision, m.capability_id, c.contract_digest,
	CASE WHEN m.at <= $6::integer AND (m.at = 1 OR m.bytes <= $7::bigint) THEN c.definition END
FROM aip.catalog_revision r LEFT JOIN
	(summed m JOIN aip.capability c ON c.version_id = m.version_id AND c.capability_id = m.capability_id) ON true
ORDER BY m.capability_id`

// oneSQL finds one capability of a tenant: what shownSQL would show of it, by key. $1
// tenant, $2 capability.
const oneSQL = `SELECT r.revision, o.contract_digest, o.definition
FROM aip.catalog_revision r LEFT JOIN LATERAL (
	SELECT c.contract_digest, c.definition
	FROM (
		SELECT DISTINCT x.version_id FROM aip.route_candidate x
		WHERE x.tenant_id = $1::text AND x.capability_id = $2::text AND x.weight > 0
	) offered
	JOIN aip.connector_version v ON v.id = offered.version_id
	JOIN aip.capability c ON c.version_id = v.id AND c.capability_id = $2::text
	ORDER BY v.release_sequence, c.version_id LIMIT 1
) o ON true`

// Get implements registry.Catalog, in one statement.
func (r *Registry) Get(ctx context.Context, tenant fleet.TenantID, capability fleet.CapabilityID) (registry.Listing, error) {
	absent := fleet.Errorf(fleet.NotFound, "catalog.capability", "the tenant has no such capability")
	if tenant.IsZero() || capability.IsZero() {
		return registry.Listing{}, absent
	}
	p, err := r.catalogPool()
	if err != nil {
		return registry.Listing{}, err
	}
	var revision uint64
	var digest *string
	var definition []byte
	if err := p.row(ctx, oneSQL, []any{tenant.String(), capability.String()}, &revision, &digest, &definition); err != nil {
		return registry.Listing{}, unreadable(err)
	}
	if digest == nil {
		return registry.Listing{}, absent
	}
	return offering(revision, *digest, definition)
}

func unreadable(err error) error {
	return refused("catalog.unavailable", "the catalog could not be read", err)
}

// Query implements registry.Catalog.
func (r *Registry) Query(ctx context.Context, tenant fleet.TenantID, q registry.CatalogQuery) (registry.CatalogPage, error) {
	q, err := q.Checked()
	if err != nil {
		return registry.CatalogPage{}, err
	}
	return r.page(ctx, tenant, q)
}

// page reads one page in one statement.
func (r *Registry) page(ctx context.Context, tenant fleet.TenantID, q registry.CatalogQuery) (registry.CatalogPage, error) {
	p, err := r.catalogPool()
	if err != nil {
		return registry.CatalogPage{}, err
	}
	filter := q.Filter(tenant)
	from, err := catalog.Open(r.cursor, filter, q.Cursor)
	if err != nil {
		return registry.CatalogPage{}, err
	}
	page := registry.CatalogPage{Items: []registry.Listing{}}
	who := tenant.String()
	if q.Unbound {
		who = ""
	} else if who == "" { // neither a tenant nor permission to see unbound ones: nothing
		if err := p.row(ctx, "SELECT revision FROM aip.catalog_revision", nil, &page.Revision); err != nil {
			return registry.CatalogPage{}, unreadable(err)
		}
		return page, from.Fits(page.Revision)
	}
	var more bool
	err = p.use(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, shownSQL, who, q.Exact.String(), strings.ToLower(q.Search), q.Profile, from.After.String(), q.Limit, registry.MaxPageBytes)
		if err == nil {
			more, err = collect(rows, &page)
		}
		return err
	})
	if err != nil {
		return registry.CatalogPage{}, unreadable(err)
	}
	if err := from.Fits(page.Revision); err != nil {
		return registry.CatalogPage{}, err
	}
	if more {
		page.Next = catalog.Seal(r.cursor, page.Revision, filter, page.Items[len(page.Items)-1].Definition.ID)
	}
	return page, nil
}

// collect fills the page; more reports whether something matching was left out.
func collect(rows pgx.Rows, page *registry.CatalogPage) (more bool, err error) {
	var id, digest *string
	var definition []byte
	_, err = pgx.ForEachRow(rows, []any{&page.Revision, &id, &digest, &definition}, func() error {
		if id == nil {
			return nil // nothing is shown
		}
		if definition == nil {
			more = true
			return nil
		}
		item, err := offering(page.Revision, *digest, definition)
		page.Items = append(page.Items, item)
		return err
	})
	return more, err
}

func offering(revision uint64, digest string, definition []byte) (registry.Listing, error) {
	item := registry.Listing{Revision: revision}
	if err := json.Unmarshal(definition, &item.Definition); err != nil {
		return registry.Listing{}, malformed(err)
	}
	var err error
	if item.ContractDigest, err = fleet.ParseDigest(digest); err != nil {
		return registry.Listing{}, malformed(err)
	}
	return item, nil
}

// searchText is what a search looks through: id, name and description, each folded
// and apart from the others.
func searchText(d fleet.CapabilityDefinition) string {
	return strings.ToLower(d.ID.String() + "\x1f" + d.Name + "\x1f" + d.Description)
}
