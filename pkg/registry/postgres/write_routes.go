package postgres

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// replicaRow is a declared replica; the live row that goes with it copies some.
type replicaRow struct {
	ID                string `json:"id"`
	Tenant            string `json:"tenant_id"`
	Type              string `json:"type_id"`
	Instance          string `json:"instance_id"`
	Version           string `json:"version_id"`
	Endpoint          string `json:"endpoint"`
	PeerPrincipalID   string `json:"peer_principal_id"`
	PeerPrincipalKind string `json:"peer_principal_kind"`
	PeerDID           string `json:"peer_did"`
	TrustDomain       string `json:"trust_domain"`
	TransportProfile  string `json:"transport_profile"`
	Region            string `json:"region"`
	Zone              string `json:"zone"`
	CapacityClass     string `json:"capacity_class"`
	LiveID            string `json:"replica_id"`
	Ring              int64  `json:"ring"`
	Capacity          uint32 `json:"capacity"`
}

// writeReplicas declares new replicas. Those that exist change in nothing but their
// capacity, which is live state: resize moves it.
func (r *Registry) writeReplicas(ctx context.Context, tx pgx.Tx, d prepared) error {
	instances := map[fleet.InstanceID]fleet.ConnectorInstance{}
	for _, i := range d.result.Instances {
		instances[i.ID] = i
	}
	rows := []replicaRow{}
	for _, replica := range d.result.Replicas {
		if _, known := d.world.Replicas[replica.ID]; known {
			continue
		}
		i, ok := instances[replica.Instance]
		if !ok {
			i = d.world.Instances[replica.Instance]
		}
		p, t := replica.Peer, replica.Topology
		rows = append(rows, replicaRow{
			ID: replica.ID.String(), Tenant: i.Tenant.String(), Type: i.Type.String(), Instance: i.ID.String(),
			Version: replica.Version.String(), Endpoint: replica.Endpoint,
			PeerPrincipalID: p.PrincipalID, PeerPrincipalKind: p.PrincipalKind, PeerDID: p.DID, TrustDomain: p.TrustDomain, TransportProfile: p.TransportProfile,
			Region: t.Region, Zone: t.Zone, CapacityClass: t.CapacityClass,
			LiveID: replica.ID.String(), Ring: r.ring.Replica(replica.ID), Capacity: replica.Capacity,
		})
	}
	err := set(ctx, tx, `INSERT INTO aip.replica (id, tenant_id, type_id, instance_id, version_id, endpoint, peer_principal_id,
			peer_principal_kind, peer_did, trust_domain, transport_profile, region, zone, capacity_class)
		SELECT id, tenant_id, type_id, instance_id, version_id, endpoint, peer_principal_id,
			peer_principal_kind, peer_did, trust_domain, transport_profile, region, zone, capacity_class
		FROM json_populate_recordset(NULL::aip.replica, $1::json)`, rows)
	if err != nil {
		return err
	}
	return set(ctx, tx, `INSERT INTO aip.replica_live (replica_id, instance_id, version_id, region, zone, capacity_class, ring, capacity)
		SELECT replica_id, instance_id, version_id, region, zone, capacity_class, ring, capacity
		FROM json_populate_recordset(NULL::aip.replica_live, $1::json)`, rows)
}

// resize changes the capacity of known replicas, in the order of their ids, and never
// below what is in flight now. It runs under the exclusive publication lock: earlier,
// it could hold a replica that a reservation waits for while that reservation holds
// the lock that the publisher waits for.
func resize(ctx context.Context, tx pgx.Tx, d prepared) error {
	ids, capacities := []string{}, []int64{}
	for _, r := range d.result.Replicas {
		if _, known := d.world.Replicas[r.ID]; known {
			ids, capacities = append(ids, r.ID.String()), append(capacities, int64(r.Capacity))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	tag, err := tx.Exec(ctx, `UPDATE aip.replica_live l SET capacity = k.capacity
		FROM (SELECT l.replica_id, u.capacity FROM unnest($1::text[], $2::bigint[]) AS u (id, capacity)
			JOIN aip.replica_live l ON l.replica_id = u.id ORDER BY l.replica_id FOR NO KEY UPDATE OF l) k
		WHERE l.replica_id = k.replica_id AND l.active <= k.capacity`, ids, capacities)
	if err != nil {
		return err
	}
	if int(tag.RowsAffected()) != len(ids) {
		return fleet.Errorf(fleet.Conflict, "publish.capacity", "a capacity would fall below what is in flight").
			Advise("drain the replica first, or choose more")
	}
	return nil
}

type bindingRow struct {
	Tenant                string `json:"tenant_id"`
	Capability            string `json:"capability_id"`
	Instance              string `json:"instance_id"`
	Priority              uint32 `json:"priority"`
	PolicyRevision        uint64 `json:"policy_revision"`
	CredentialRevisionRef string `json:"credential_revision_ref"`
	QuotaPolicyRef        string `json:"quota_policy_ref"`
	Enabled               bool   `json:"enabled"`
}

// writeBindings inserts new bindings and changes known ones. Which is which was read under
// the publisher's lock; trying each insert first costs a large publication twice.
func writeBindings(ctx context.Context, tx pgx.Tx, d prepared) error {
	var fresh, known []bindingRow
	for _, b := range d.result.Bindings {
		row := bindingRow{
			b.Tenant.String(), b.Capability.String(), b.Instance.String(), b.Priority, b.PolicyRevision,
			b.CredentialRevisionRef, b.QuotaPolicyRef, b.Enabled,
		}
		if _, there := d.world.Bindings[b.BindingKey]; there {
			known = append(known, row)
		} else {
			fresh = append(fresh, row)
		}
	}
	err := set(ctx, tx, `INSERT INTO aip.binding (tenant_id, capability_id, instance_id, priority, policy_revision,
			credential_revision_ref, quota_policy_ref, enabled)
		SELECT tenant_id, capability_id, instance_id, priority, policy_revision, credential_revision_ref, quota_policy_ref, enabled
		FROM json_populate_recordset(NULL::aip.binding, $1::json)`, fresh)
	if err != nil {
		return err
	}
	return set(ctx, tx, `UPDATE aip.binding b SET priority = n.priority, policy_revision = n.policy_revision,
			credential_revision_ref = n.credential_revision_ref, quota_policy_ref = n.quota_policy_ref, enabled = n.enabled
		FROM json_populate_recordset(NULL::aip.binding, $1::json) n
		WHERE b.tenant_id = n.tenant_id AND b.capability_id = n.capability_id AND b.instance_id = n.instance_id`, known)
}

func writeEvidence(ctx context.Context, tx pgx.Tx, d prepared) error {
	if t := d.set.Trust; t != nil {
		_, err := tx.Exec(ctx, `INSERT INTO aip.trust_revision (number, digest, document, actor, reason, applied_at)
			VALUES ($1::bigint, $2::text, $3::text, $4::text, $5::text, aip.clock())`,
			t.Number, t.Digest.String(), string(t.Document), t.Actor, t.Reason)
		if err != nil {
			return err
		}
	}
	if !d.admit {
		return nil
	}
	a := d.set.Admission
	if a.Package != nil {
		_, err := tx.Exec(ctx, "INSERT INTO aip.package_blob (digest, bytes) VALUES ($1::text, $2::bytea) ON CONFLICT DO NOTHING", a.PackageDigest.String(), a.Package)
		if err != nil {
			return err
		}
	}
	evidence, err := json.Marshal(a.Evidence)
	if err != nil {
		return fleet.Invalidf("publish.json", "the evidence cannot be written as JSON").Caused(err)
	}
	findings := string(a.Findings)
	if findings == "" {
		findings = "null"
	}
	if _, err := tx.Exec(ctx, `UPDATE aip.admission a SET state = 'superseded'
		FROM aip.connector_version old JOIN aip.connector_version new ON new.type_id = old.type_id
		WHERE new.id = $1::text AND old.id = a.version_id AND a.state = 'applied'`, a.Version.String()); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO aip.admission (package_digest, version_id, findings, evidence, trust_revision, evaluator_version,
		evaluated_at, actor, reason, state, catalog_revision, applied_at, revocation_list)
		VALUES ($1::text, $2::text, $3::text, $4::text, $5::bigint, $6::text, $7::timestamptz, $8::text, $9::text, 'applied', $10::bigint, aip.clock(), $11::bigint)`,
		a.PackageDigest.String(), a.Version.String(), findings, string(evidence), a.TrustRevision, a.EvaluatorVersion,
		stored(a.EvaluatedAt), a.Actor, a.Reason, d.publication.After, a.RevocationList)
	return err
}

// rebuildChains computes the candidate chains of every instance that the change set
// touches: by itself, by a binding, by its type, or by a version that it serves.
func rebuildChains(ctx context.Context, tx pgx.Tx, d prepared) error {
	instances, types := names{}, names{}
	for _, i := range d.result.Instances {
		instances.add(i.ID)
	}
	for _, b := range d.result.Bindings {
		instances.add(b.Instance)
	}
	for _, t := range d.result.Types {
		types.add(t.ID)
	}
	if len(instances)+len(types) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, "SELECT id FROM aip.connector_instance WHERE type_id = ANY ($1::text[])", types.list())
	if err != nil {
		return err
	}
	ofTypes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, id := range ofTypes {
		instances[id] = true
	}
	for part := range slices.Chunk(instances.list(), rebuiltAtOnce) {
		if _, err := tx.Exec(ctx, "SELECT aip.rebuild_candidates($1::text[])", part); err != nil {
			return err
		}
	}
	return nil
}

// rebuiltAtOnce is how many instances one statement computes the chains of.
const rebuiltAtOnce = 200
