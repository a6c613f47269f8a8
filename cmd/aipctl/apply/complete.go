package apply

import (
	"context"
	"reflect"

	"github.com/aipfleet/aipfleet/cmd/aipctl/publish"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Complete fills in the revisions that a change set leaves at zero: 1 for a new
// record, the published one for a record that does not differ, and one more than
// the published for a record that does. Given revisions stay as they are.
func Complete(ctx context.Context, reader registry.Reader, set *registry.ChangeSet) error {
	if err := completeInstances(ctx, reader, set.Instances); err != nil {
		return err
	}
	if err := completeBindings(ctx, reader, set.Bindings); err != nil {
		return err
	}
	return completeQuotas(ctx, reader, set.Quotas)
}

func completeInstances(ctx context.Context, reader registry.Reader, list []fleet.ConnectorInstance) error {
	ids := make([]string, 0, len(list))
	for _, i := range list {
		ids = append(ids, i.ID.String())
	}
	published := map[fleet.InstanceID]fleet.ConnectorInstance{}
	err := byIDs(ctx, reader, registry.Instances, ids, func(r registry.Records) {
		for _, i := range r.Instances {
			published[i.ID] = i
		}
	})
	for n := range list {
		if err == nil && list[n].ConfigRevision == 0 {
			old := published[list[n].ID]
			list[n].ConfigRevision = old.ConfigRevision
			list[n].ConfigRevision = grow(old.ConfigRevision, reflect.DeepEqual(old, list[n]))
		}
	}
	return err
}

func completeBindings(ctx context.Context, reader registry.Reader, list []fleet.CapabilityBinding) error {
	published := map[fleet.BindingKey]fleet.CapabilityBinding{}
	for _, tenant := range tenantsOf(list) {
		page, err := publish.ReadAll(ctx, reader, registry.Selection{Noun: registry.Bindings, Tenant: tenant})
		if err != nil {
			return err
		}
		for _, b := range page.Bindings {
			published[b.BindingKey] = b
		}
	}
	for n := range list {
		if list[n].PolicyRevision == 0 {
			old := published[list[n].BindingKey]
			list[n].PolicyRevision = old.PolicyRevision
			list[n].PolicyRevision = grow(old.PolicyRevision, old == list[n])
		}
	}
	return nil
}

func tenantsOf(list []fleet.CapabilityBinding) []fleet.TenantID {
	seen := map[fleet.TenantID]bool{}
	var tenants []fleet.TenantID
	for _, b := range list {
		if !seen[b.Tenant] && !b.Tenant.IsZero() {
			seen[b.Tenant] = true
			tenants = append(tenants, b.Tenant)
		}
	}
	return tenants
}

func completeQuotas(ctx context.Context, reader registry.Reader, list []fleet.QuotaPolicy) error {
	ids := make([]string, 0, len(list))
	for _, q := range list {
		ids = append(ids, q.Ref)
	}
	published := map[string]fleet.QuotaPolicy{}
	err := byIDs(ctx, reader, registry.Quotas, ids, func(r registry.Records) {
		for _, q := range r.Quotas {
			published[q.Ref] = q
		}
	})
	for n := range list {
		if err == nil && list[n].Revision == 0 {
			old := published[list[n].Ref]
			list[n].Revision = old.Revision
			list[n].Revision = grow(old.Revision, reflect.DeepEqual(old, list[n]))
		}
	}
	return err
}

func grow(published uint64, same bool) uint64 {
	if same {
		return published
	}
	return published + 1
}

// byIDs reads records by id in batches of what one page may hold.
func byIDs(ctx context.Context, reader registry.Reader, n registry.Noun, ids []string, take func(registry.Records)) error {
	for len(ids) > 0 {
		batch := ids[:min(len(ids), registry.MaxListItems)]
		page, err := reader.List(ctx, registry.Selection{Noun: n, IDs: batch})
		if err != nil {
			return err
		}
		take(page)
		ids = ids[len(batch):]
	}
	return nil
}
