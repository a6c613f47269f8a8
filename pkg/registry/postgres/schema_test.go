package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// refusal opens a registry that must not be opened.
func refusal(t *testing.T, c postgres.Config) *fleet.Error {
	t.Helper()
	r, err := postgres.Open(t.Context(), c)
	if err == nil {
		r.Close()
		t.Fatal("it opened")
	}
	e := fleet.AsError(err, "")
	if e.Next == "" && e.Kind != fleet.Unavailable {
		t.Errorf("the refusal %q does not say what to do", e.What)
	}
	return e
}

// TestOpen_G20_RefusesWhatAProcessMustNotRunOn: a wrong role, an old or new schema,
// changed privileges, each with its own code and the next step.
func TestOpen_G20_RefusesWhatAProcessMustNotRunOn(t *testing.T) {
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	cluster := pgclustertest.Shared(t)
	data := url(t, d.name, "aip_data")
	cases := []struct {
		name, prepare, restore, code string
		config                       postgres.Config
		next                         string // "" is any
	}{
		{name: "the owner's login", code: "registry.role", config: postgres.Config{DataURL: url(t, d.name, "aip_migrate")}},
		{name: "a superuser", code: "registry.role", config: postgres.Config{DataURL: cluster.AdminDSN(d.name)}},
		{name: "another role of the registry", code: "registry.role", config: postgres.Config{DataURL: url(t, d.name, "aip_control")}},
		{name: "an empty database", code: "registry.not_migrated", next: "aipctl registry init", config: postgres.Config{
			DataURL: cluster.DSN("aip_data", password, pgclustertest.NewDatabase(t, ""))}},
		{name: "a newer schema", code: "registry.schema_newer", config: postgres.Config{DataURL: data},
			prepare: "INSERT INTO aip.schema_file (name, version, sha256) VALUES ('99999_x.sql', 99999, 'x')",
			restore: "DELETE FROM aip.schema_file WHERE version = 99999"},
		{name: "an older function", code: "registry.not_migrated", next: "aipctl registry migrate", config: postgres.Config{DataURL: data},
			prepare: "UPDATE aip.schema_file SET sha256 = 'x' || sha256 WHERE name = 'resolve_one.sql'",
			restore: "UPDATE aip.schema_file SET sha256 = substr(sha256, 2) WHERE name = 'resolve_one.sql'"},
		{name: "one privilege too many", code: "registry.privileges", config: postgres.Config{DataURL: data},
			prepare: "GRANT DELETE ON aip.route TO aip_data", restore: "REVOKE DELETE ON aip.route FROM aip_data"},
		{name: "a column too many", code: "registry.privileges", config: postgres.Config{DataURL: data},
			prepare: "GRANT UPDATE (endpoint) ON aip.route TO aip_data", restore: "REVOKE UPDATE (endpoint) ON aip.route FROM aip_data"},
		{name: "one too few", code: "registry.privileges", config: postgres.Config{DataURL: data},
			prepare: "REVOKE INSERT ON aip.route FROM aip_data", restore: "GRANT INSERT ON aip.route TO aip_data"},
		{name: "something for everybody", code: "registry.privileges", config: postgres.Config{DataURL: data},
			prepare: "GRANT SELECT ON aip.deployment TO PUBLIC", restore: "REVOKE SELECT ON aip.deployment FROM PUBLIC"},
		{name: "a wrong password", code: "registry.password", config: postgres.Config{DataURL: cluster.DSN("aip_data", "wrong", d.name)}},
		{name: "no URL at all", code: "registry.url", config: postgres.Config{DataURL: "postgres://%zz"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.prepare != "" {
				d.exec(t, c.prepare)
				defer d.exec(t, c.restore)
			}
			e := refusal(t, c.config)
			if e.Code != c.code {
				t.Errorf("refused with %s (%v), want %s", e.Code, e, c.code)
			}
			if c.next != "" && e.Next != c.next {
				t.Errorf("next is %q, want %q", e.Next, c.next)
			}
			if text := e.Error() + e.Next; strings.Contains(text, "wrong@") || strings.Contains(text, password) {
				t.Errorf("the refusal shows the password: %s", text)
			}
		})
	}
	d.open(t, postgres.Config{DataURL: data}) // everything was restored
}

// TestPools_G20_WhatNeedsAnotherRoleSaysSo calls every verb on a registry that was
// given another plane's role.
func TestPools_G20_WhatNeedsAnotherRoleSaysSo(t *testing.T) {
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	ctx := t.Context()
	id := replicaID(0, 0)
	for name, c := range map[string]struct {
		call func() error
		code string
	}{
		"publish as data":      {func() error { _, err := d.data.Apply(ctx, registry.ChangeSet{}, 0); return err }, "registry.no_control_pool"},
		"preview as readonly":  {func() error { _, err := d.read.Preview(ctx, registry.ChangeSet{}); return err }, "registry.no_control_pool"},
		"resolve as lifecycle": {func() error { _, err := d.lifecycle.Resolve(ctx, request("a", 0)); return err }, "registry.no_data_pool"},
		"resolve as control":   {func() error { _, err := d.control.Resolve(ctx, request("a", 0)); return err }, "registry.no_data_pool"},
		"settle as readonly": {func() error {
			_, err := d.read.Settle(ctx, fleet.Assignment{}, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
			return err
		}, "registry.no_data_pool"},
		"expire as control":   {func() error { _, err := d.control.Expire(ctx, 1); return err }, "registry.no_data_pool"},
		"beat as data":        {func() error { _, err := d.data.Renew(ctx, registry.Beat{Replica: id}); return err }, "registry.no_lifecycle_pool"},
		"register as control": {func() error { _, err := d.control.Register(ctx, registration(0, 0, "m")); return err }, "registry.no_lifecycle_pool"},
		"drain as lifecycle": {func() error {
			_, err := d.lifecycle.Intend(ctx, registry.Intent{Replica: id, Want: fleet.IntentDrain, Actor: "a", Reason: "r"})
			return err
		}, "registry.no_control_pool"},
		"list as lifecycle": {func() error {
			_, err := d.lifecycle.List(ctx, registry.Selection{Noun: registry.Types})
			return err
		}, "registry.no_read_pool"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.call(); fleet.CodeOf(err) != c.code || !fleet.Is(err, fleet.Denied) {
				t.Errorf("it gave %v, want code %s", err, c.code)
			}
		})
	}
}

// TestFailure_G18_NoStatementLeaksIntoAnError: what the database says stays inside.
func TestFailure_G18_NoStatementLeaksIntoAnError(t *testing.T) {
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	d.build(t, shape{tenants: 1, replicas: 1, capacity: 1})
	d.exec(t, "REVOKE SELECT ON aip.route FROM aip_data")
	_, err := d.data.Lookup(t.Context(), tenantID(0), actionID("x"))
	e := fleet.AsError(err, "")
	text := strings.ToLower(e.Error() + e.Next)
	if e.Kind != fleet.Denied || strings.Contains(text, "aip.route") || strings.Contains(text, "select") || strings.Contains(text, "relation") {
		t.Errorf("the error is %s: %s / %s", e.Kind, e.Error(), e.Next)
	}
	_, err = d.data.Lookup(cancelled(t), tenantID(0), actionID("x"))
	if !fleet.Is(err, fleet.Unavailable) {
		t.Errorf("a given-up read gave %v", err)
	}
}

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestRoles_G20_SettingsBelongToTheRole: what bounds and plans a session does not
// depend on what the client says when it connects, since a pooler would lose it.
func TestRoles_G20_SettingsBelongToTheRole(t *testing.T) {
	d := fresh(t, pgx.QueryExecModeCacheStatement)
	for role, settings := range map[string]map[string]string{
		"aip_data": {
			"plan_cache_mode": "force_generic_plan", "enable_bitmapscan": "off", "enable_seqscan": "off", "jit": "off",
			"statement_timeout": "5s", "lock_timeout": "2s", "idle_in_transaction_session_timeout": "5s",
		},
		"aip_lifecycle": {"plan_cache_mode": "force_generic_plan", "statement_timeout": "5s", "lock_timeout": "2s", "idle_in_transaction_session_timeout": "5s"},
		"aip_control":   {"enable_seqscan": "off", "statement_timeout": "2min", "lock_timeout": "10s", "idle_in_transaction_session_timeout": "30s"},
		"aip_readonly":  {"default_transaction_read_only": "on", "statement_timeout": "30s", "lock_timeout": "2s", "idle_in_transaction_session_timeout": "15s"},
	} {
		conn, err := pgx.Connect(t.Context(), url(t, d.name, role))
		if err != nil {
			t.Fatal(err)
		}
		settings["search_path"], settings["TimeZone"], settings["transaction_isolation"] = "pg_catalog, aip, pg_temp", "UTC", "read committed"
		for name, want := range settings {
			var have string
			if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&have); err != nil || have != want {
				t.Errorf("%s has %s = %q, want %q (%v)", role, name, have, want, err)
			}
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
