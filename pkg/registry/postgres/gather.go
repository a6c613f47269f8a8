package postgres

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

// field is everything that a new route is chosen from.
type field struct {
	question   routing.Question
	candidates []routing.Candidate
	valid      int // chains that may carry new work
	revision   uint64
}

// chainsSQL reads every binding of a capability with its instance, and the first of
// its own scopes that looks full.
const chainsSQL = `SELECT b.instance_id, b.priority, b.policy_revision, b.credential_revision_ref, b.quota_policy_ref, b.enabled,
	i.tenant_id, i.enabled, i.type_id, t.enabled, q.circuit_threshold, q.circuit_open_millis, q.circuit_probes,
	CASE WHEN aip.looks_full(b.tenant_id, b.capability_id, b.instance_id, i.type_id, q.binding_limit, NULL, NULL) THEN 'binding'
		WHEN aip.looks_full(b.tenant_id, b.capability_id, b.instance_id, i.type_id, NULL, NULL, d.type_limit) THEN 'connector_type'
		WHEN aip.looks_full(b.tenant_id, b.capability_id, b.instance_id, i.type_id, NULL, q.instance_limit, NULL) THEN 'instance'
		ELSE '' END
	FROM aip.binding b
	JOIN aip.connector_instance i ON i.id = b.instance_id
	JOIN aip.connector_type t ON t.id = i.type_id
	JOIN aip.quota_effective q ON q.ref = b.quota_policy_ref
	CROSS JOIN (SELECT * FROM aip.quota_effective WHERE ref = 'deployment') d
	WHERE b.tenant_id = $1::text AND b.capability_id = $2::text`

// servedSQL reads the versions of those instances.
const servedSQL = `SELECT s.instance_id, s.version_id, s.weight, vs.status, v.qualified,
	EXISTS (SELECT FROM aip.capability c WHERE c.version_id = v.id AND c.capability_id = $2::text AND c.claimed)
	FROM aip.binding b
	JOIN aip.instance_serving s ON s.instance_id = b.instance_id
	JOIN aip.connector_version v ON v.id = s.version_id
	JOIN aip.version_status vs ON vs.version_id = v.id
	WHERE b.tenant_id = $1::text AND b.capability_id = $2::text`

// membersSQL reads the replicas of those instances.
const membersSQL = `SELECT r.id, r.instance_id, r.version_id, r.endpoint, r.region, r.zone, r.capacity_class, to_json(l)
	FROM aip.binding b
	JOIN aip.replica r ON r.instance_id = b.instance_id
	JOIN aip.replica_live l ON l.replica_id = r.id
	WHERE b.tenant_id = $1::text AND b.capability_id = $2::text`

// gather collects every replica behind the tenant's bindings of a capability, as
// package routing judges them.
func (r *Registry) gather(ctx context.Context, tx pgx.Tx, req registry.RouteRequest) (field, error) {
	f := field{question: routing.Question{Tenant: req.Tenant, Topology: req.Topology, Ring: r.ring.Action(req.Action)}}
	err := tx.QueryRow(ctx, `SELECT revision, aip.clock(), (SELECT count(*) FROM aip.route_candidate
		WHERE tenant_id = $1::text AND capability_id = $2::text) FROM aip.catalog_revision`,
		req.Tenant.String(), req.Capability.String()).Scan(&f.revision, &f.question.Now, &f.valid)
	if err != nil {
		return f, err
	}
	f.question.Now = f.question.Now.UTC()
	bases, err := readChains(ctx, tx, req)
	if err != nil {
		return f, err
	}
	served, err := r.readServed(ctx, tx, req, bases)
	if err != nil {
		return f, err
	}
	f.candidates, err = r.readMembers(ctx, tx, req, bases, served)
	return f, err
}

func readChains(ctx context.Context, tx pgx.Tx, req registry.RouteRequest) (map[fleet.InstanceID]routing.Chain, error) {
	rows, err := tx.Query(ctx, chainsSQL, req.Tenant.String(), req.Capability.String())
	if err != nil {
		return nil, err
	}
	bases := map[fleet.InstanceID]routing.Chain{}
	var c routing.Chain
	var instance, tenant, typ string
	b, q := &c.Binding, &c.Circuit
	_, err = pgx.ForEachRow(rows, []any{
		&instance, &b.Priority, &b.PolicyRevision, &b.CredentialRevisionRef, &b.QuotaPolicyRef, &b.Enabled,
		&tenant, &c.Enabled, &typ, &c.TypeEnabled, &q.FailureThreshold, &q.OpenMillis, &q.HalfOpenProbes, &c.FullScope,
	}, func() error {
		var p reading
		b.BindingKey = fleet.BindingKey{Tenant: req.Tenant, Capability: req.Capability, Instance: read(&p, fleet.ParseInstanceID, instance)}
		c.Tenant, c.Type = read(&p, fleet.ParseTenantID, tenant), read(&p, fleet.ParseTypeID, typ)
		bases[b.Instance] = c
		return p.err
	})
	return bases, err
}

type servedKey struct {
	instance fleet.InstanceID
	version  fleet.VersionID
}

func (r *Registry) readServed(ctx context.Context, tx pgx.Tx, req registry.RouteRequest, bases map[fleet.InstanceID]routing.Chain) (map[servedKey]routing.Chain, error) {
	rows, err := tx.Query(ctx, servedSQL, req.Tenant.String(), req.Capability.String())
	if err != nil {
		return nil, err
	}
	served := map[servedKey]routing.Chain{}
	drawn := map[fleet.InstanceID][]routing.Weighted{}
	var instance, version, status string
	var weight uint32
	var qualified, implements bool
	_, err = pgx.ForEachRow(rows, []any{&instance, &version, &weight, &status, &qualified, &implements}, func() error {
		var p reading
		key := servedKey{read(&p, fleet.ParseInstanceID, instance), read(&p, fleet.ParseVersionID, version)}
		c := bases[key.instance]
		c.Version, c.Status, c.Qualified, c.Implements, c.Weight = key.version, fleet.VersionStatus(status), qualified, implements, weight
		served[key] = c
		drawn[key.instance] = append(drawn[key.instance], routing.Weighted{Version: key.version, Weight: weight})
		return p.err
	})
	for instance, versions := range drawn {
		slices.SortFunc(versions, func(a, b routing.Weighted) int { return strings.Compare(a.Version.String(), b.Version.String()) })
		point := (r.ring.Draw(req.Action) + r.ring.Instance(instance)) % routing.RingSize
		for rank, version := range routing.DrawOrder(point, versions) {
			key := servedKey{instance, version}
			c := served[key]
			c.DrawRank = rank
			served[key] = c
		}
	}
	return served, err
}

func (r *Registry) readMembers(ctx context.Context, tx pgx.Tx, req registry.RouteRequest, bases map[fleet.InstanceID]routing.Chain, served map[servedKey]routing.Chain) ([]routing.Candidate, error) {
	rows, err := tx.Query(ctx, membersSQL, req.Tenant.String(), req.Capability.String())
	if err != nil {
		return nil, err
	}
	var candidates []routing.Candidate
	var id, instance, version string
	var replica fleet.Replica
	var live []byte
	t := &replica.Topology
	_, err = pgx.ForEachRow(rows, []any{&id, &instance, &version, &replica.Endpoint, &t.Region, &t.Zone, &t.CapacityClass, &live}, func() error {
		var p reading
		replica.ID, replica.Instance = read(&p, fleet.ParseReplicaID, id), read(&p, fleet.ParseInstanceID, instance)
		replica.Version = read(&p, fleet.ParseVersionID, version)
		var row liveRow
		if err := json.Unmarshal(live, &row); err != nil {
			return malformed(err)
		}
		replica.Capacity = row.Capacity
		chain, ok := served[servedKey{replica.Instance, replica.Version}]
		if !ok { // it is shown as not serving, whatever else may be wrong with it
			chain = bases[replica.Instance]
			chain.Status, chain.Qualified, chain.Implements, chain.Weight = fleet.VersionActive, true, true, 1
		}
		state, err := row.live()
		if err != nil {
			return malformed(err)
		}
		candidates = append(candidates, routing.Candidate{Chain: chain, Replica: replica, Live: state, Ring: r.ring.Replica(replica.ID)})
		return p.err
	})
	return candidates, err
}
