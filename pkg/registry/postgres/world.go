package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/catalog"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// loadWorld reads the records that a change set names or refers to, and nothing more
// (see catalog.World): a publication costs what it touches, not what exists.
func loadWorld(ctx context.Context, tx pgx.Tx, set registry.ChangeSet) (catalog.World, error) {
	w := catalog.World{
		Quotas: map[string]fleet.QuotaPolicy{}, Types: map[fleet.TypeID]fleet.ConnectorType{},
		Versions: map[fleet.VersionID]fleet.ConnectorVersion{}, Instances: map[fleet.InstanceID]fleet.ConnectorInstance{},
		Replicas: map[fleet.ReplicaID]fleet.Replica{}, Bindings: map[fleet.BindingKey]fleet.CapabilityBinding{},
		Active: map[fleet.ReplicaID]uint32{},
	}
	for _, load := range []func(context.Context, pgx.Tx, registry.ChangeSet, catalog.World) error{
		loadInstances, loadTypes, loadVersions, loadQuotas, loadReplicas, loadBindings,
	} {
		if err := load(ctx, tx, set, w); err != nil {
			return w, err
		}
	}
	return w, nil
}

// names collects distinct identities.
type names map[string]bool

func (n names) add(id interface{ String() string }) { n[id.String()] = true }

func (n names) list() []string { return slices.Sorted(maps.Keys(n)) }

func loadInstances(ctx context.Context, tx pgx.Tx, set registry.ChangeSet, w catalog.World) error {
	ids := names{}
	for _, i := range set.Instances {
		ids.add(i.ID)
	}
	for _, r := range set.Replicas {
		ids.add(r.Instance)
	}
	for _, b := range set.Bindings {
		ids.add(b.Instance)
	}
	return load(ctx, tx, instanceListing(), ids, decoded, func(i fleet.ConnectorInstance) { w.Instances[i.ID] = i })
}

func loadTypes(ctx context.Context, tx pgx.Tx, set registry.ChangeSet, w catalog.World) error {
	ids := names{}
	for _, t := range set.Types {
		ids.add(t.ID)
	}
	for _, v := range set.Versions {
		ids.add(v.Type)
	}
	for _, i := range set.Instances {
		ids.add(i.Type)
	}
	return load(ctx, tx, typeListing(), ids, decoded, func(t fleet.ConnectorType) { w.Types[t.ID] = t })
}

func loadVersions(ctx context.Context, tx pgx.Tx, set registry.ChangeSet, w catalog.World) error {
	ids := names{}
	for _, i := range set.Instances {
		for _, s := range i.Serving {
			ids.add(s.Version)
		}
	}
	for _, i := range w.Instances {
		for _, s := range i.Serving {
			ids.add(s.Version)
		}
	}
	for _, r := range set.Replicas {
		ids.add(r.Version)
	}
	for _, v := range set.Versions {
		ids.add(v.ID)
	}
	if err := addRelatives(ctx, tx, set.Versions, ids); err != nil {
		return err
	}
	return load(ctx, tx, versionListing(), ids, decoded, func(v fleet.ConnectorVersion) { w.Versions[v.ID] = v })
}

// addRelatives adds what a new version must not contradict: every version of its
// type, every one that offers a capability that it offers, and the owner of its artifact.
func addRelatives(ctx context.Context, tx pgx.Tx, versions []fleet.ConnectorVersion, ids names) error {
	if len(versions) == 0 {
		return nil
	}
	types, capabilities, artifacts := names{}, names{}, names{}
	for _, v := range versions {
		types.add(v.Type)
		artifacts.add(v.ArtifactDigest)
		for _, d := range v.Manifest.Capabilities {
			capabilities.add(d.ID)
		}
	}
	rows, err := tx.Query(ctx, `SELECT id FROM aip.connector_version WHERE type_id = ANY ($1::text[]) OR artifact_digest = ANY ($2::text[])
		UNION SELECT version_id FROM aip.capability WHERE capability_id = ANY ($3::text[])`,
		types.list(), artifacts.list(), capabilities.list())
	if err != nil {
		return err
	}
	var id string
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		ids[id] = true
		return nil
	})
	return err
}

func loadQuotas(ctx context.Context, tx pgx.Tx, set registry.ChangeSet, w catalog.World) error {
	refs := names{fleet.QuotaFleet: true, fleet.QuotaDeployment: true}
	for _, q := range set.Quotas {
		refs[q.Ref] = true
	}
	for _, b := range set.Bindings {
		refs[b.QuotaPolicyRef] = true
	}
	return load(ctx, tx, quotaListing(), refs, decoded, func(q fleet.QuotaPolicy) { w.Quotas[q.Ref] = q })
}

func loadReplicas(ctx context.Context, tx pgx.Tx, set registry.ChangeSet, w catalog.World) error {
	ids := names{}
	for _, r := range set.Replicas {
		ids.add(r.ID)
	}
	return load(ctx, tx, replicaListing(), ids, decoded, func(r registry.ReplicaRecord) {
		w.Replicas[r.ID], w.Active[r.ID] = r.Replica, r.Live.Active
	})
}

func loadBindings(ctx context.Context, tx pgx.Tx, set registry.ChangeSet, w catalog.World) error {
	if len(set.Bindings) == 0 {
		return nil
	}
	tenants, capabilities, instances := []string{}, []string{}, []string{}
	for _, b := range set.Bindings {
		tenants, capabilities, instances = append(tenants, b.Tenant.String()), append(capabilities, b.Capability.String()), append(instances, b.Instance.String())
	}
	l := bindingListing()
	rows, err := tx.Query(ctx, "SELECT "+l.document+" FROM unnest($1::text[], $2::text[], $3::text[]) AS k (t, c, i) JOIN "+l.from+
		" ON b.tenant_id = k.t AND b.capability_id = k.c AND b.instance_id = k.i", tenants, capabilities, instances)
	if err != nil {
		return err
	}
	var document []byte
	_, err = pgx.ForEachRow(rows, []any{&document}, func() error {
		b, err := decoded[fleet.CapabilityBinding](document)
		w.Bindings[b.BindingKey] = b
		return err
	})
	return err
}

// load reads the named records of one listing.
func load[T any](ctx context.Context, tx pgx.Tx, l listing, ids names, scan func([]byte) (T, error), keep func(T)) error {
	if len(ids) == 0 {
		return nil
	}
	items, _, err := fetch(ctx, tx, l, registry.Selection{IDs: ids.list()}, scan)
	for _, item := range items {
		keep(item)
	}
	return err
}

// newestTrust is the number of the newest trust revision, 0 when there is none.
func newestTrust(ctx context.Context, tx pgx.Tx) (n uint64, err error) {
	err = tx.QueryRow(ctx, "SELECT COALESCE(max(number), 0) FROM aip.trust_revision").Scan(&n)
	return n, err
}

// admittedAlready reports whether this admission is in the journal.
func admittedAlready(ctx context.Context, tx pgx.Tx, a registry.Admission) (bool, error) {
	var version string
	err := tx.QueryRow(ctx, "SELECT version_id FROM aip.admission WHERE package_digest = $1::text", a.PackageDigest.String()).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err == nil && version != a.Version.String() {
		return false, fleet.Errorf(fleet.Conflict, "publish.package", "the package was admitted as version %s already", version)
	}
	return err == nil, err
}
