package memory

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/catalog"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Get implements registry.Catalog.
func (r *Registry) Get(ctx context.Context, tenant fleet.TenantID, capability fleet.CapabilityID) (registry.Listing, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return registry.Listing{}, err
	}
	defer end()
	v, ok := r.best(tenant, capability, "")
	if !ok {
		return registry.Listing{}, fleet.Errorf(fleet.NotFound, "catalog.capability", "the tenant has no such capability")
	}
	return r.listing(v, capability)
}

// Query implements registry.Catalog.
func (r *Registry) Query(ctx context.Context, tenant fleet.TenantID, q registry.CatalogQuery) (registry.CatalogPage, error) {
	q, err := q.Checked()
	if err != nil {
		return registry.CatalogPage{}, err
	}
	end, err := r.begin(ctx)
	if err != nil {
		return registry.CatalogPage{}, err
	}
	defer end()
	filter := q.Filter(tenant)
	from, err := catalog.Open(r.cursor, filter, q.Cursor)
	if err == nil {
		err = from.Fits(r.revision)
	}
	if err != nil {
		return registry.CatalogPage{}, err
	}
	return r.page(r.matching(filter, from.After), filter, q.Limit)
}

// shown is one capability with the version whose definition is listed.
type shown struct {
	id      fleet.CapabilityID
	version fleet.ConnectorVersion
}

func (r *Registry) page(matching []shown, filter catalog.Filter, limit int) (registry.CatalogPage, error) {
	page := registry.CatalogPage{Revision: r.revision, Items: []registry.Listing{}}
	sizes := make([]int, 0, min(len(matching), limit+1))
	for _, m := range matching[:min(len(matching), limit+1)] {
		d, _ := m.version.Manifest.Capability(m.id)
		sizes = append(sizes, catalog.DefinitionBytes(d))
	}
	n := catalog.Fit(sizes, limit, registry.MaxPageBytes)
	for _, m := range matching[:n] {
		item, err := r.listing(m.version, m.id)
		if err != nil {
			return registry.CatalogPage{}, err
		}
		page.Items = append(page.Items, item)
	}
	if n < len(matching) {
		page.Next = catalog.Seal(r.cursor, r.revision, filter, matching[n-1].id)
	}
	return page, nil
}

// matching lists what the filter shows beyond after, ordered bytewise by id.
func (r *Registry) matching(f catalog.Filter, after fleet.CapabilityID) []shown {
	var list []shown
	for _, id := range r.names(f) {
		if id.String() <= after.String() || !f.Exact.IsZero() && id != f.Exact {
			continue
		}
		v, ok := r.best(f.Tenant, id, f.Profile)
		if f.Unbound {
			v, ok = r.bestUnbound(id, f.Profile)
		}
		if !ok {
			continue
		}
		if d, _ := v.Manifest.Capability(id); catalog.Matches(d, f.Search) {
			list = append(list, shown{id, v})
		}
	}
	slices.SortFunc(list, func(a, b shown) int { return strings.Compare(a.id.String(), b.id.String()) })
	return list
}

func (r *Registry) names(f catalog.Filter) []fleet.CapabilityID {
	if !f.Unbound {
		return slices.Collect(maps.Keys(r.offered[f.Tenant]))
	}
	all := map[fleet.CapabilityID]bool{}
	for _, v := range r.versions {
		for _, d := range v.Manifest.Capabilities {
			all[d.ID] = true
		}
	}
	return slices.Collect(maps.Keys(all))
}

// best is the version whose definition the tenant sees.
func (r *Registry) best(tenant fleet.TenantID, id fleet.CapabilityID, profile string) (fleet.ConnectorVersion, bool) {
	var found []fleet.ConnectorVersion
	for _, instance := range r.offered[tenant][id] {
		i := r.instances[instance]
		c := catalog.Chain{
			Binding:  r.bindings[fleet.BindingKey{Tenant: tenant, Capability: id, Instance: instance}],
			Instance: i, Type: r.types[i.Type],
		}
		for _, s := range i.Serving {
			if c.Version = r.versions[s.Version]; c.Visible(tenant, profile) {
				found = append(found, c.Version)
			}
		}
	}
	return preferred(found)
}

// bestUnbound is the active version whose definition administration sees.
func (r *Registry) bestUnbound(id fleet.CapabilityID, profile string) (fleet.ConnectorVersion, bool) {
	var found []fleet.ConnectorVersion
	for _, v := range r.versions {
		if v.Status == fleet.VersionActive && r.types[v.Type].Enabled && catalog.Offers(v, id) && catalog.Supports(v, id, profile) {
			found = append(found, v)
		}
	}
	return preferred(found)
}

func preferred(found []fleet.ConnectorVersion) (fleet.ConnectorVersion, bool) {
	if len(found) == 0 {
		return fleet.ConnectorVersion{}, false
	}
	return slices.MinFunc(found, catalog.Prefer), true
}

func (r *Registry) listing(v fleet.ConnectorVersion, id fleet.CapabilityID) (registry.Listing, error) {
	d, _ := v.Manifest.Capability(id)
	digest, err := catalog.ContractDigest(d)
	if err != nil {
		return registry.Listing{}, err
	}
	return registry.Listing{Definition: deepCopy(d), ContractDigest: digest, Revision: r.revision}, nil
}
