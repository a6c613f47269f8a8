package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// oldestRoute is when the seeded history begins, in milliseconds: action ids are
// ordered by time, so that new ones come after all of it.
const oldestRoute = 1_760_000_000_000

// copyHistory fills routes, attempts and settlements with settled actions of the
// first group, spread over its replicas. It is written into tables that the same
// transaction truncated, which the server then need not log.
func (s *site) copyHistory(ctx context.Context, conn *pgx.Conn) error {
	if s.shape.history == 0 {
		return nil
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	first := s.shape.groups[0]
	for _, statement := range []string{
		"TRUNCATE aip.route, aip.attempt, aip.attempt_settlement",
		fmt.Sprintf(`CREATE TEMP TABLE target ON COMMIT DROP AS
			SELECT row_number() OVER (ORDER BY r.id) - 1 AS number, r.*, v.manifest_digest, v.artifact_digest, l.journal_id, l.lease_epoch
			FROM aip.replica r JOIN aip.connector_version v ON v.id = r.version_id JOIN aip.replica_live l ON l.replica_id = r.id
			WHERE r.tenant_id LIKE 'tenant-%s-%%'`, first.name),
		"CREATE UNIQUE INDEX ON target (number)", "ANALYZE target",
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	if err := s.insertHistory(ctx, tx, first); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// old is one line per seeded action: its id, its time, its replica and capability.
const old = `(SELECT 'act_' || lpad(to_hex(%[1]d + g), 12, '0') || '7' || substr(md5(g::text), 1, 19) AS action_id,
		to_timestamp((%[1]d + g) / 1000.0) AS at, md5('t' || g) AS token,
		'bench:capability-' || lpad((g %% %[2]d)::text, 3, '0') AS capability_id,
		(g * 7919) %% (SELECT count(*) FROM target) AS number
	FROM generate_series(1::bigint, %[3]d) g) o JOIN target t ON t.number = o.number`

func (s *site) insertHistory(ctx context.Context, tx pgx.Tx, first group) error {
	from := fmt.Sprintf(old, int64(oldestRoute), first.capabilities, s.shape.history)
	for _, statement := range []string{
		`INSERT INTO aip.route (action_id, capability_id, tenant_id, instance_id, replica_id, endpoint, region, zone, capacity_class,
			peer_principal_id, peer_principal_kind, peer_did, trust_domain, transport_profile, version_id, manifest_digest, artifact_digest,
			catalog_revision, binding_policy_revision, credential_revision_ref, quota_policy_ref, quota_policy_revision,
			key_priority, key_region_match, key_zone_match, key_active_before, assigned_at)
		SELECT o.action_id, o.capability_id, t.tenant_id, t.instance_id, t.id, t.endpoint, t.region, t.zone, t.capacity_class,
			t.peer_principal_id, t.peer_principal_kind, t.peer_did, t.trust_domain, t.transport_profile, t.version_id, t.manifest_digest, t.artifact_digest,
			1, 1, 'credential-1', '', 1, 10, true, true, 0, o.at FROM ` + from,
		`INSERT INTO aip.attempt (action_id, fence, token, lease_epoch, journal_id, scope_kinds, scope_keys, scope_limits,
			circuit_threshold, circuit_open_millis, circuit_probes, probe, reserved_at, deadline)
		SELECT o.action_id, 1, o.token, t.lease_epoch, t.journal_id, '{binding,instance,tenant}',
			ARRAY[t.tenant_id || '|' || o.capability_id || '|' || t.instance_id, t.instance_id, t.tenant_id], '{250,500,1000}',
			5, 30000, 1, false, o.at, o.at + interval '90 s' FROM ` + from,
		`INSERT INTO aip.attempt_settlement (action_id, fence, outcome, code, verdict, peer_fault, evidence_digest, settled_at)
		SELECT o.action_id, 1, 'completed', '', 'completed', false, 'sha256:' || md5(o.token) || md5(o.action_id), o.at + interval '20 ms' FROM ` + from,
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
