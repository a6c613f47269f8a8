package publish

import (
	"context"

	"github.com/aipfleet/aipfleet/cmd/aipctl/impact"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// ReadAll joins every page of a selection.
func ReadAll(ctx context.Context, reader registry.Reader, s registry.Selection) (registry.Records, error) {
	s.Limit = registry.MaxListItems
	var all registry.Records
	for {
		page, err := reader.List(ctx, s)
		if err != nil {
			return all, err
		}
		all.Revision = page.Revision
		all.Types = append(all.Types, page.Types...)
		all.Versions = append(all.Versions, page.Versions...)
		all.Instances = append(all.Instances, page.Instances...)
		all.Replicas = append(all.Replicas, page.Replicas...)
		all.Bindings = append(all.Bindings, page.Bindings...)
		all.Quotas = append(all.Quotas, page.Quotas...)
		all.Routes = append(all.Routes, page.Routes...)
		all.Reconciliations = append(all.Reconciliations, page.Reconciliations...)
		all.Admissions = append(all.Admissions, page.Admissions...)
		all.Trust = append(all.Trust, page.Trust...)
		all.Revocations = append(all.Revocations, page.Revocations...)
		all.Events = append(all.Events, page.Events...)
		all.Archived = append(all.Archived, page.Archived...)
		all.Capabilities = append(all.Capabilities, page.Capabilities...)
		all.Tenants = append(all.Tenants, page.Tenants...)
		if page.Next == "" {
			return all, nil
		}
		s.After = page.Next
	}
}

// ReadUndecided lists what is uncertain on a replica and waits for a decision.
func ReadUndecided(ctx context.Context, reader registry.Reader, replica fleet.ReplicaID) (open []fleet.Reconciliation, err error) {
	all, err := ReadAll(ctx, reader, registry.Selection{Noun: registry.Reconciliations, Replica: replica})
	for _, u := range all.Reconciliations {
		if u.State != fleet.ReconcileResolved {
			open = append(open, u)
		}
	}
	return open, err
}

// ReadFleet reads what an impact is judged by.
func ReadFleet(ctx context.Context, reader registry.Reader) (impact.Fleet, error) {
	replicas, err := ReadAll(ctx, reader, registry.Selection{Noun: registry.Replicas})
	if err != nil {
		return impact.Fleet{}, err
	}
	bindings, err := ReadAll(ctx, reader, registry.Selection{Noun: registry.Bindings})
	return impact.Fleet{Replicas: replicas.Replicas, Bindings: bindings.Bindings}, err
}
