package postgres

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/catalog"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/settlement"
)

// write puts the accepted records down, each noun in sets of many rows, and computes
// the chains that they change. Nothing that another session may hold is
// waited for here: live rows are only inserted, capacities move in resize.
func (r *Registry) write(ctx context.Context, tx pgx.Tx, d prepared) error {
	for _, step := range []func(context.Context, pgx.Tx, prepared) error{
		writeQuotas, writeTypes, writeVersions, r.writeInstances, r.writeReplicas, writeBindings, writeEvidence, writeRevocation, rebuildChains,
	} {
		if err := step(ctx, tx, d); err != nil {
			return err
		}
	}
	return nil
}

// batch is how many rows one statement writes: the server keeps as many in memory, and
// nothing that is queued for a statement's end grows with the publication.
const batch = 5000

// set writes rows in batches, each as one JSON array that the statement turns into a
// record set.
func set[R any](ctx context.Context, tx pgx.Tx, statement string, rows []R) error {
	for part := range slices.Chunk(rows, batch) {
		raw, err := json.Marshal(part)
		if err != nil {
			return fleet.Invalidf("publish.json", "the change set cannot be written as JSON").Caused(err)
		}
		if _, err := tx.Exec(ctx, statement, string(raw)); err != nil {
			return err
		}
	}
	return nil
}

type quotaRow struct {
	Ref       string  `json:"ref"`
	Revision  uint64  `json:"revision"`
	Enabled   bool    `json:"enabled"`
	Global    *uint32 `json:"global_limit"`
	Tenant    *uint32 `json:"tenant_limit"`
	Type      *uint32 `json:"type_limit"`
	Instance  *uint32 `json:"instance_limit"`
	Binding   *uint32 `json:"binding_limit"`
	Retry     *uint32 `json:"retry_limit"`
	Threshold uint32  `json:"circuit_threshold"`
	Open      uint32  `json:"circuit_open_millis"`
	Probes    uint32  `json:"circuit_probes"`
}

func rowOfQuota(q fleet.QuotaPolicy) quotaRow {
	return quotaRow{
		Ref: q.Ref, Revision: q.Revision, Enabled: q.Enabled, Global: q.Global, Tenant: q.Tenant, Type: q.ConnectorType,
		Instance: q.Instance, Binding: q.Binding, Retry: q.TenantRetry,
		Threshold: q.Circuit.FailureThreshold, Open: q.Circuit.OpenMillis, Probes: q.Circuit.HalfOpenProbes,
	}
}

// effective is what a reference means on the hot path: a disabled policy bounds nothing.
func effective(ref string, q fleet.QuotaPolicy) quotaRow {
	if !q.Enabled {
		q = fleet.QuotaPolicy{Revision: q.Revision}
	}
	row := rowOfQuota(q)
	row.Ref, row.Enabled = ref, true
	return row
}

const quotaColumns = `revision, global_limit, tenant_limit, type_limit, instance_limit, binding_limit, retry_limit,
	circuit_threshold, circuit_open_millis, circuit_probes`

const quotaUpdates = `revision = EXCLUDED.revision, global_limit = EXCLUDED.global_limit, tenant_limit = EXCLUDED.tenant_limit,
	type_limit = EXCLUDED.type_limit, instance_limit = EXCLUDED.instance_limit, binding_limit = EXCLUDED.binding_limit,
	retry_limit = EXCLUDED.retry_limit, circuit_threshold = EXCLUDED.circuit_threshold,
	circuit_open_millis = EXCLUDED.circuit_open_millis, circuit_probes = EXCLUDED.circuit_probes`

func writeQuotas(ctx context.Context, tx pgx.Tx, d prepared) error {
	if len(d.result.Quotas) == 0 {
		return nil
	}
	published := d.world.Quotas // read here for the last time
	rows, means := []quotaRow{}, []quotaRow{}
	for _, q := range d.result.Quotas {
		published[q.Ref] = q
		rows = append(rows, rowOfQuota(q))
		if q.Ref != fleet.QuotaDeployment {
			means = append(means, effective(q.Ref, q))
		}
	}
	find := func(ref string) (fleet.QuotaPolicy, bool) { q, ok := published[ref]; return q, ok }
	unnamed, _ := settlement.Policy("", find)
	means = append(means, effective("", unnamed), effective(fleet.QuotaDeployment, settlement.Deployment(find)))
	err := set(ctx, tx, `INSERT INTO aip.quota_policy (ref, enabled, `+quotaColumns+`)
		SELECT ref, enabled, `+quotaColumns+` FROM json_populate_recordset(NULL::aip.quota_policy, $1::json)
		ON CONFLICT (ref) DO UPDATE SET enabled = EXCLUDED.enabled, `+quotaUpdates, rows)
	if err != nil {
		return err
	}
	return set(ctx, tx, `INSERT INTO aip.quota_effective (ref, `+quotaColumns+`)
		SELECT ref, `+quotaColumns+` FROM json_populate_recordset(NULL::aip.quota_effective, $1::json)
		ON CONFLICT (ref) DO UPDATE SET `+quotaUpdates, means)
}

func writeTypes(ctx context.Context, tx pgx.Tx, d prepared) error {
	return set(ctx, tx, `INSERT INTO aip.connector_type (id, name, owner, enabled)
		SELECT id, name, owner, enabled FROM json_populate_recordset(NULL::aip.connector_type, $1::json)
		ON CONFLICT (id) DO UPDATE SET enabled = EXCLUDED.enabled`, d.result.Types)
}

func writeVersions(ctx context.Context, tx pgx.Tx, d prepared) error {
	for _, v := range d.result.Versions { // at most one: an admission admits one
		manifest, err := json.Marshal(v.Manifest)
		if err != nil {
			return fleet.Invalidf("publish.json", "the manifest cannot be written as JSON").Caused(err)
		}
		attestation, err := json.Marshal(v.Attestation)
		if err != nil {
			return fleet.Invalidf("publish.json", "the attestation cannot be written as JSON").Caused(err)
		}
		var b pgx.Batch
		b.Queue("INSERT INTO aip.manifest (digest, document, size) VALUES ($1::text, $2::text, $3::integer) ON CONFLICT DO NOTHING",
			v.ManifestDigest.String(), string(manifest), len(manifest))
		b.Queue(`INSERT INTO aip.connector_version (id, type_id, version, release_sequence, manifest_digest, artifact_digest,
			schema_bundle_digest, aip_versions, attestation, qualified, capability_count, admitted_at)
			VALUES ($1::text, $2::text, $3::text, $4::bigint, $5::text, $6::text, $7::text, $8::text[], $9::text, $10::boolean, $11::integer, $12::timestamptz)`,
			v.ID.String(), v.Type.String(), v.Version, v.ReleaseSequence, v.ManifestDigest.String(), v.ArtifactDigest.String(),
			v.SchemaBundleDigest.String(), v.AIPVersions, string(attestation), v.Attestation.Qualified, len(v.Manifest.Capabilities), stored(v.AdmittedAt))
		b.Queue("INSERT INTO aip.version_status (version_id, status, status_before) VALUES ($1::text, $2::text, $3::text)",
			v.ID.String(), string(v.Status), string(v.StatusBefore))
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		if err := writeCapabilities(ctx, tx, v); err != nil {
			return err
		}
	}
	return nil
}

type capabilityRow struct {
	Version        string   `json:"version_id"`
	Capability     string   `json:"capability_id"`
	ContractDigest string   `json:"contract_digest"`
	Definition     string   `json:"definition"`
	Size           int      `json:"size"`
	Search         string   `json:"search"`
	Claimed        bool     `json:"claimed"`
	Profiles       []string `json:"profiles"`
}

func writeCapabilities(ctx context.Context, tx pgx.Tx, v fleet.ConnectorVersion) error {
	rows := []capabilityRow{}
	for _, d := range v.Manifest.Capabilities {
		definition, err := json.Marshal(d)
		if err != nil {
			return fleet.Invalidf("publish.json", "the definition of %s cannot be written as JSON", d.ID).Caused(err)
		}
		digest, err := catalog.ContractDigest(d)
		if err != nil {
			return err
		}
		claim, claimed := v.Manifest.Implementation(d.ID)
		rows = append(rows, capabilityRow{
			Version: v.ID.String(), Capability: d.ID.String(), ContractDigest: digest.String(), Definition: string(definition),
			Size: catalog.DefinitionBytes(d), Search: searchText(d), Claimed: claimed, Profiles: append([]string{}, claim.Profiles...),
		})
	}
	return set(ctx, tx, `INSERT INTO aip.capability (version_id, capability_id, contract_digest, definition, size, search, claimed, profiles)
		SELECT version_id, capability_id, contract_digest, definition, size, search, claimed, profiles
		FROM json_populate_recordset(NULL::aip.capability, $1::json)`, rows)
}

type instanceRow struct {
	ID                string `json:"id"`
	Tenant            string `json:"tenant_id"`
	Type              string `json:"type_id"`
	Ring              int64  `json:"ring"`
	ConfigRevision    uint64 `json:"config_revision"`
	SecretProviderRef string `json:"secret_provider_ref"`
	Enabled           bool   `json:"enabled"`
}

type servingRow struct {
	Instance string `json:"instance_id"`
	Tenant   string `json:"tenant_id"`
	Type     string `json:"type_id"`
	Version  string `json:"version_id"`
	Weight   uint32 `json:"weight"`
	Position int    `json:"position"`
}

func (r *Registry) writeInstances(ctx context.Context, tx pgx.Tx, d prepared) error {
	rows, serving, ids := []instanceRow{}, []servingRow{}, []string{}
	for _, i := range d.result.Instances {
		ids = append(ids, i.ID.String())
		rows = append(rows, instanceRow{
			ID: i.ID.String(), Tenant: i.Tenant.String(), Type: i.Type.String(), Ring: r.ring.Instance(i.ID),
			ConfigRevision: i.ConfigRevision, SecretProviderRef: i.SecretProviderRef, Enabled: i.Enabled,
		})
		for at, s := range i.Serving {
			serving = append(serving, servingRow{i.ID.String(), i.Tenant.String(), i.Type.String(), s.Version.String(), s.Weight, at})
		}
	}
	err := set(ctx, tx, `INSERT INTO aip.connector_instance (id, tenant_id, type_id, ring, config_revision, secret_provider_ref, enabled)
		SELECT id, tenant_id, type_id, ring, config_revision, secret_provider_ref, enabled
		FROM json_populate_recordset(NULL::aip.connector_instance, $1::json)
		ON CONFLICT (id) DO UPDATE SET config_revision = EXCLUDED.config_revision,
			secret_provider_ref = EXCLUDED.secret_provider_ref, enabled = EXCLUDED.enabled`, rows)
	if err != nil || len(ids) == 0 {
		return err
	}
	if _, err := tx.Exec(ctx, "DELETE FROM aip.instance_serving WHERE instance_id = ANY ($1::text[])", ids); err != nil {
		return err
	}
	return set(ctx, tx, `INSERT INTO aip.instance_serving (instance_id, tenant_id, type_id, version_id, weight, position)
		SELECT instance_id, tenant_id, type_id, version_id, weight, position
		FROM json_populate_recordset(NULL::aip.instance_serving, $1::json)`, serving)
}
