package describe

import (
	"context"
	"fmt"
	"slices"

	"github.com/aipfleet/aipfleet/cmd/aipctl/noun"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

const shownRelated = 20

// relate reads what a record belongs to and what belongs to it, a few of each.
func (o *Options) relate(ctx context.Context, reader registry.Reader, r noun.Record, d *Description) error {
	for _, s := range selections(r) {
		n, err := noun.Find(string(s.Noun))
		if err != nil {
			return err
		}
		s.Limit = shownRelated
		_, records, err := n.List(ctx, reader, s, false)
		if err != nil {
			return err
		}
		records = keep(r, n, records)
		d.related = append(d.related, related{n, records})
		items := []any{}
		for _, x := range records {
			items = append(items, x.Item)
		}
		d.Related[n.Plural] = items
	}
	return nil
}

// selections says which records are shown beside one of a noun.
func selections(r noun.Record) []registry.Selection {
	switch v := r.Item.(type) {
	case fleet.ConnectorType:
		return []registry.Selection{{Noun: registry.Versions}, {Noun: registry.Instances}}
	case fleet.ConnectorVersion:
		return []registry.Selection{{Noun: registry.Instances, Version: v.ID}, {Noun: registry.Replicas, Version: v.ID}, {Noun: registry.Admissions, Version: v.ID}}
	case fleet.ConnectorInstance:
		return []registry.Selection{{Noun: registry.Replicas, Instance: v.ID}, {Noun: registry.Bindings, Instance: v.ID}, {Noun: registry.Routes, Instance: v.ID, Reserved: true}}
	case registry.ReplicaRecord:
		return []registry.Selection{{Noun: registry.Instances, IDs: []string{v.Instance.String()}}, {Noun: registry.Routes, Replica: v.ID, Reserved: true}, {Noun: registry.Reconciliations, Replica: v.ID}}
	case fleet.CapabilityBinding:
		return []registry.Selection{{Noun: registry.Instances, IDs: []string{v.Instance.String()}}, {Noun: registry.Replicas, Instance: v.Instance}}
	case registry.TenantRecord:
		return []registry.Selection{{Noun: registry.Instances, Tenant: v.Tenant}, {Noun: registry.Bindings, Tenant: v.Tenant}, {Noun: registry.Replicas, Tenant: v.Tenant}}
	case noun.RouteView:
		return []registry.Selection{{Noun: registry.Replicas, IDs: []string{v.Route.Replica.String()}}, {Noun: registry.Reconciliations, IDs: []string{v.Route.Action.String()}}}
	case fleet.Reconciliation:
		return []registry.Selection{{Noun: registry.Routes, IDs: []string{v.Action.String()}}, {Noun: registry.Replicas, IDs: []string{v.Replica.String()}}}
	case registry.CapabilityRecord:
		return []registry.Selection{{Noun: registry.Bindings}, {Noun: registry.Versions, IDs: []string{v.Version.String()}}}
	case registry.Admission:
		return []registry.Selection{{Noun: registry.Versions, IDs: []string{v.Version.String()}}, {Noun: registry.TrustRevisions, IDs: []string{fmt.Sprint(v.TrustRevision)}}}
	}
	return nil
}

// keep drops records that the registry could not be asked to leave out.
func keep(r noun.Record, of noun.Noun, records []noun.Record) []noun.Record {
	path, want := "", any(nil)
	switch v := r.Item.(type) {
	case fleet.ConnectorType:
		path, want = "type_id", v.ID.String()
	case registry.CapabilityRecord:
		if of.Registry() == registry.Bindings {
			path, want = "capability_id", v.Definition.ID.String()
		}
	}
	if path == "" {
		return records
	}
	return slices.DeleteFunc(records, func(x noun.Record) bool { return x.Get(path) != want })
}

// next lists the commands that an operator is likely to want.
func next(r noun.Record, id string) []string {
	switch v := r.Item.(type) {
	case fleet.ConnectorVersion:
		return []string{"aipctl get instances --version " + id, fmt.Sprintf("aipctl quarantine version %s --reason TEXT", id)}
	case fleet.ConnectorInstance:
		return []string{"aipctl get replicas --instance " + id, "aipctl get bindings --instance " + id}
	case registry.ReplicaRecord:
		if v.Live.Status == fleet.ReplicaRetired {
			return []string{"aipctl reconcile list --state operator"}
		}
		if !v.Live.OfferedJournal.IsZero() {
			return []string{fmt.Sprintf("aipctl accept journal %s --reason TEXT", id), "aipctl reconcile list"}
		}
		if v.Live.Intent == fleet.IntentDrain {
			return []string{"aipctl undrain replica " + id, "aipctl get routes --reserved --replica " + id}
		}
		return []string{"aipctl drain replica " + id, "aipctl get routes --reserved --replica " + id}
	case fleet.CapabilityBinding:
		return []string{fmt.Sprintf("aipctl route explain --tenant %s --capability %s", v.Tenant, v.Capability)}
	case noun.RouteView:
		return []string{"aipctl route inspect " + id}
	case fleet.Reconciliation:
		if v.State != fleet.ReconcileResolved {
			return []string{"aipctl reconcile show " + v.Action.String(), fmt.Sprintf("aipctl reconcile resolve %s --outcome happened|did-not-happen --evidence FILE --reason TEXT", v.Action)}
		}
	case registry.Admission:
		return []string{"aipctl trust reverify " + v.Version.String(), fmt.Sprintf("aipctl release export %s --out DIR", v.PackageDigest)}
	case registry.TenantRecord:
		return []string{"aipctl get bindings --tenant " + id}
	}
	return nil
}
