package postgres

import (
	"context"
	"encoding/json"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Every document is written with the JSON names of the contract's own types, which
// then parse and check it.

func text() []string { return []string{"text"} }

func typeListing() listing {
	return listing{
		from: "aip.connector_type t", document: "json_build_object('id', t.id, 'name', t.name, 'owner', t.owner, 'enabled', t.enabled)",
		keys: []string{"t.id"}, kinds: text(), ids: "t.id",
		state: "CASE WHEN t.enabled THEN 'enabled' ELSE 'disabled' END = $",
	}
}

func versionListing() listing {
	return listing{
		from: `aip.connector_version v JOIN aip.version_status s ON s.version_id = v.id
			JOIN aip.manifest m ON m.digest = v.manifest_digest`,
		document: `json_build_object('id', v.id, 'type_id', v.type_id, 'version', v.version, 'release_sequence', v.release_sequence,
			'status', s.status, 'status_before', s.status_before, 'manifest', m.document::json,
			'manifest_digest', v.manifest_digest, 'artifact_digest', v.artifact_digest,
			'schema_bundle_digest', v.schema_bundle_digest, 'aip_versions', v.aip_versions,
			'attestation', v.attestation::json, 'admitted_at', aip.instant(v.admitted_at))`,
		keys: []string{"v.id"}, kinds: text(), ids: "v.id", version: "v.id = $", state: "s.status = $",
	}
}

func instanceListing() listing {
	return listing{
		from: "aip.connector_instance i",
		document: `json_build_object('id', i.id, 'type_id', i.type_id, 'tenant_id', i.tenant_id,
			'serving', (SELECT json_agg(json_build_object('version_id', s.version_id, 'weight', s.weight) ORDER BY s.position)
				FROM aip.instance_serving s WHERE s.instance_id = i.id),
			'config_revision', i.config_revision, 'secret_provider_ref', i.secret_provider_ref, 'enabled', i.enabled)`,
		keys: []string{"i.id"}, kinds: text(), ids: "i.id", tenant: "i.tenant_id = $", instance: "i.id = $",
		version: "EXISTS (SELECT FROM aip.instance_serving s WHERE s.instance_id = i.id AND s.version_id = $)",
		state:   "CASE WHEN i.enabled THEN 'enabled' ELSE 'disabled' END = $",
	}
}

func replicaListing() listing {
	return listing{
		from: "aip.replica r JOIN aip.replica_live l ON l.replica_id = r.id LEFT JOIN aip.journal_offer o ON o.replica_id = r.id",
		document: `json_build_object('id', r.id, 'instance_id', r.instance_id, 'version_id', r.version_id, 'endpoint', r.endpoint,
			'peer', json_build_object('principal_id', r.peer_principal_id, 'principal_kind', r.peer_principal_kind,
				'did', r.peer_did, 'trust_domain', r.trust_domain, 'transport_profile', r.transport_profile),
			'topology', json_build_object('region', r.region, 'zone', r.zone, 'capacity_class', r.capacity_class),
			'capacity', l.capacity, 'tenant_id', r.tenant_id,
			'live', json_build_object('id', r.id, 'status', l.status, 'intent', l.intent, 'healthy', l.healthy,
				'not_ready_beats', l.not_ready_beats, 'lease_epoch', l.lease_epoch, 'lease_sequence', l.lease_sequence,
				'lease_expires_at', aip.instant(l.lease_expires_at), 'last_beat_at', aip.instant(l.last_beat_at),
				'in_flight', l.in_flight, 'journal_id', l.journal_id, 'offered_journal_id', COALESCE(o.journal_id, ''), 'active_assignments', l.active,
				'circuit', json_build_object('state', l.circuit_state, 'consecutive_unknowns', l.circuit_unknowns,
					'open_until', aip.instant(l.circuit_open_until), 'opened_at', aip.instant(l.circuit_opened_at),
					'openings', l.circuit_openings, 'probes_out', l.circuit_probes_out)))`,
		keys: []string{"r.id"}, kinds: text(), ids: "r.id", tenant: "r.tenant_id = $", instance: "r.instance_id = $",
		version: "r.version_id = $", replica: "r.id = $", state: "l.status = $", reserved: "l.active > 0",
	}
}

func bindingListing() listing {
	return listing{
		from: "aip.binding b",
		document: `json_build_object('tenant_id', b.tenant_id, 'capability_id', b.capability_id, 'instance_id', b.instance_id,
			'priority', b.priority, 'policy_revision', b.policy_revision, 'credential_revision_ref', b.credential_revision_ref,
			'quota_policy_ref', b.quota_policy_ref, 'enabled', b.enabled)`,
		keys: []string{"b.tenant_id", "b.capability_id", "b.instance_id"}, kinds: []string{"text", "text", "text"},
		ids:    "b.tenant_id || '|' || b.capability_id || '|' || b.instance_id",
		tenant: "b.tenant_id = $", instance: "b.instance_id = $",
		state: "CASE WHEN b.enabled THEN 'enabled' ELSE 'disabled' END = $",
	}
}

func quotaListing() listing {
	return listing{
		from: "aip.quota_policy q",
		document: `json_build_object('ref', q.ref, 'revision', q.revision, 'enabled', q.enabled, 'global', q.global_limit,
			'tenant', q.tenant_limit, 'connector_type', q.type_limit, 'instance', q.instance_limit, 'binding', q.binding_limit,
			'tenant_retry', q.retry_limit, 'circuit', json_build_object('failure_threshold', q.circuit_threshold,
				'open_ms', q.circuit_open_millis, 'half_open_probes', q.circuit_probes))`,
		keys: []string{"q.ref"}, kinds: text(), ids: "q.ref", state: "CASE WHEN q.enabled THEN 'enabled' ELSE 'disabled' END = $",
	}
}

func capabilityListing() listing {
	return listing{
		from: `aip.capability c JOIN aip.connector_version v ON v.id = c.version_id JOIN aip.version_status s ON s.version_id = v.id`,
		document: `json_build_object('definition', c.definition::json, 'contract_digest', c.contract_digest,
			'version_id', c.version_id, 'type_id', v.type_id)`,
		keys: []string{"c.capability_id", "c.version_id"}, kinds: []string{"text", "text"}, ids: "c.capability_id",
		tenant: `EXISTS (SELECT FROM aip.binding b JOIN aip.instance_serving i ON i.instance_id = b.instance_id
			WHERE b.tenant_id = $ AND b.capability_id = c.capability_id AND i.version_id = c.version_id)`,
		version: "c.version_id = $", state: "s.status = $",
	}
}

func tenantListing() listing {
	return listing{
		from: "(SELECT tenant_id, count(*) AS instances FROM aip.connector_instance GROUP BY tenant_id) t",
		document: `json_build_object('tenant_id', t.tenant_id, 'instances', t.instances,
			'replicas', (SELECT count(*) FROM aip.replica r WHERE r.tenant_id = t.tenant_id),
			'bindings', (SELECT count(*) FROM aip.binding b WHERE b.tenant_id = t.tenant_id),
			'reserved', (SELECT count(*) FROM aip.reservation h JOIN aip.route r ON r.action_id = h.action_id
				WHERE r.tenant_id = t.tenant_id))`,
		keys: []string{"t.tenant_id"}, kinds: text(), ids: "t.tenant_id", tenant: "t.tenant_id = $",
	}
}

func routeListing() listing {
	return listing{
		from:     "aip.route r",
		document: "json_build_object('route', to_json(r), 'attempts', " + attemptsOf + ")",
		keys:     []string{"r.assigned_at", "r.action_id"}, kinds: []string{"timestamptz", "text"}, falling: true,
		ids: "r.action_id", tenant: "r.tenant_id = $", instance: "r.instance_id = $", version: "r.version_id = $", replica: "r.replica_id = $",
		state: `$ = COALESCE((SELECT s.outcome FROM aip.attempt a
			LEFT JOIN aip.attempt_settlement s ON s.action_id = a.action_id AND s.fence = a.fence
			WHERE a.action_id = r.action_id ORDER BY a.fence DESC LIMIT 1), 'reserved')`,
		reserved: "EXISTS (SELECT FROM aip.reservation h WHERE h.action_id = r.action_id)", at: "r.assigned_at",
	}
}

func admissionListing() listing {
	return listing{
		from: "aip.admission a",
		document: `json_build_object('package_digest', a.package_digest, 'version_id', a.version_id, 'findings', a.findings::json,
			'evidence', a.evidence::json, 'trust_revision', a.trust_revision, 'revocation_list', a.revocation_list, 'evaluator_version', a.evaluator_version,
			'evaluated_at', aip.instant(a.evaluated_at), 'actor', a.actor, 'reason', a.reason, 'state', a.state,
			'catalog_revision', a.catalog_revision, 'applied_at', aip.instant(a.applied_at))`,
		keys: []string{"a.version_id", "a.package_digest"}, kinds: []string{"text", "text"}, ids: "a.version_id",
		version: "a.version_id = $", state: "a.state = $",
	}
}

func reconciliationListing() listing {
	return listing{
		from: "aip.reconciliation u", document: reconciliationDocument,
		keys: []string{"u.opened_at", "u.action_id", "-u.fence"}, kinds: []string{"timestamptz", "text", "bigint"}, falling: true,
		ids: "u.action_id", tenant: "u.tenant_id = $", instance: "u.instance_id = $", replica: "u.replica_id = $",
		version: "EXISTS (SELECT FROM aip.route r WHERE r.action_id = u.action_id AND r.version_id = $)", state: "u.state = $", at: "u.opened_at",
	}
}

func trustListing() listing {
	return listing{
		from: "aip.trust_revision t",
		document: `json_build_object('number', t.number, 'digest', t.digest, 'document', t.document::json, 'actor', t.actor,
			'reason', t.reason, 'applied_at', aip.instant(t.applied_at))`,
		keys: []string{"t.number"}, kinds: []string{"bigint"}, ids: "t.number::text",
	}
}

func revocationListing() listing {
	return listing{
		from: "aip.revocation_list l",
		document: `json_build_object('number', l.number, 'digest', l.digest, 'document', l.document::json, 'entries', l.entries::json,
			'issued_at', aip.instant(l.issued_at), 'actor', l.actor, 'reason', l.reason, 'applied_at', aip.instant(l.applied_at))`,
		keys: []string{"l.number"}, kinds: []string{"bigint"}, ids: "l.number::text",
	}
}

func eventListing() listing {
	return listing{
		from: "aip.event e",
		document: `json_build_object('sequence', e.sequence, 'at', aip.instant(e.at), 'revision', e.revision, 'kind', e.kind,
			'subject', e.subject, 'actor', e.actor, 'reason', e.reason, 'detail', e.detail)`,
		keys: []string{"e.sequence"}, kinds: []string{"bigint"}, falling: true, ids: "e.sequence::text", state: "e.kind = $", at: "e.at",
	}
}

func routeRecordOf(document []byte) (registry.RouteRecord, error) {
	var doc struct{ Route, Attempts json.RawMessage }
	if err := json.Unmarshal(document, &doc); err != nil {
		return registry.RouteRecord{}, malformed(err)
	}
	return recordOf(doc.Route, doc.Attempts)
}

type reader func(ctx context.Context, db Querier, s registry.Selection, out *registry.Records) error

// readers returns how a noun is listed.
func readers(noun registry.Noun) (reader, bool) {
	switch noun {
	case registry.Types:
		return into(typeListing(), decoded, func(o *registry.Records) *[]fleet.ConnectorType { return &o.Types }), true
	case registry.Versions:
		return into(versionListing(), decoded, func(o *registry.Records) *[]fleet.ConnectorVersion { return &o.Versions }), true
	case registry.Instances:
		return into(instanceListing(), decoded, func(o *registry.Records) *[]fleet.ConnectorInstance { return &o.Instances }), true
	case registry.Replicas:
		return into(replicaListing(), decoded, func(o *registry.Records) *[]registry.ReplicaRecord { return &o.Replicas }), true
	case registry.Bindings:
		return into(bindingListing(), decoded, func(o *registry.Records) *[]fleet.CapabilityBinding { return &o.Bindings }), true
	case registry.Quotas:
		return into(quotaListing(), decoded, func(o *registry.Records) *[]fleet.QuotaPolicy { return &o.Quotas }), true
	case registry.Capabilities:
		return into(capabilityListing(), decoded, func(o *registry.Records) *[]registry.CapabilityRecord { return &o.Capabilities }), true
	case registry.Tenants:
		return into(tenantListing(), decoded, func(o *registry.Records) *[]registry.TenantRecord { return &o.Tenants }), true
	case registry.Routes:
		return into(routeListing(), routeRecordOf, func(o *registry.Records) *[]registry.RouteRecord { return &o.Routes }), true
	case registry.Admissions:
		return into(admissionListing(), decoded, func(o *registry.Records) *[]registry.Admission { return &o.Admissions }), true
	case registry.Reconciliations:
		return into(reconciliationListing(), reconciliationOf, func(o *registry.Records) *[]fleet.Reconciliation { return &o.Reconciliations }), true
	case registry.TrustRevisions:
		return into(trustListing(), decoded, func(o *registry.Records) *[]registry.TrustRevision { return &o.Trust }), true
	case registry.Revocations:
		return into(revocationListing(), decoded, func(o *registry.Records) *[]registry.RevocationList { return &o.Revocations }), true
	case registry.Archived:
		return into(archivedListing(), archivedOf, func(o *registry.Records) *[]registry.ArchivedAction { return &o.Archived }), true
	case registry.Events:
		return into(eventListing(), decoded, func(o *registry.Records) *[]registry.Event { return &o.Events }), true
	}
	return nil, false
}

// into binds a listing to the field of a page that it fills.
func into[T any](l listing, scan func([]byte) (T, error), field func(*registry.Records) *[]T) reader {
	return func(ctx context.Context, db Querier, s registry.Selection, out *registry.Records) error {
		items, next, err := fetch(ctx, db, l, s, scan)
		*field(out), out.Next = items, next
		return err
	}
}
