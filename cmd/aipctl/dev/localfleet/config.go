package localfleet

import (
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
)

// tree is a configuration file in the making.
type tree map[string]any

func (p Place) writeYAML(path string, doc any) error {
	text, err := yaml.Marshal(doc)
	if err != nil {
		return unavailable("dev.config", "a configuration cannot be written", err)
	}
	return writeFile(path, text, 0o644)
}

// writeContexts names this fleet for aipctl: one context for each tenant's agent,
// the operator's references in both.
func (f *Fleet) writeContexts() error {
	config := app.Config{Current: Acme, Contexts: map[string]app.Target{}}
	url := func(role string) string { return f.place.Secret(role + ".url") }
	for _, tenant := range Tenants() {
		config.Contexts[tenant] = app.Target{
			Aipd: app.AipdRef{URL: f.AipdURL(), TokenFile: f.place.tokenFile(tenant)},
			Registry: app.RegistryRef{
				ControlURLFile: url("control"), ReadonlyURLFile: url("readonly"),
				MigrateURLFile: url("migrate"), AdminURLFile: url("admin"),
			},
			OperatorKey: f.place.keyFile(keyOperator),
		}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return unavailable("dev.config", "the contexts cannot be written", err)
	}
	return writeFile(f.place.Context(), text, 0o600)
}

// writePolicy lets both agents call the desk.
func (f *Fleet) writePolicy() error {
	return f.place.writeYAML(f.place.Config("policy.yaml"), tree{"rules": []tree{{
		"effect": "allow", "tenants": Tenants(), "capabilities": []string{Connector + ":*"},
	}}})
}

func (f *Fleet) writeLifecycle() error {
	return f.place.writeYAML(f.place.Config("lifecycle.yaml"), tree{
		"listen": address(f.state.Ports.Lifecycle), "database_url_file": f.place.Secret("lifecycle.url"),
		"identity_key": f.place.keyFile(keyLifecycle), "lease_ttl": f.options.LeaseTTL.String(),
	})
}

func (f *Fleet) writeServe(operators string) error {
	doc := tree{
		"listen": address(f.state.Ports.Serve), "registry": "postgres", "database_url_file": f.place.Secret("data.url"),
		"identity_key": f.place.keyFile(keyGateway), "principal": "gateway.dev",
		"auth": tree{
			"jwt":         tree{"issuer": issuer, "audience": audience, "jwks_file": f.place.jwks(), "tenant_claim": tenantClaim},
			"tokens_file": f.place.tokensYAML(),
		},
		"policy_file":  f.place.Config("policy.yaml"),
		"operators":    operators,
		"topology":     tree{"region": "eu-1", "zone": "eu-1a"},
		"allow_ranges": []string{"127.0.0.0/8"},
	}
	if f.options.Brisk {
		doc["owner_lease"] = "2s"
		doc["reconcile"] = tree{"every": "200ms", "expire_every": "500ms", "first_pause": "200ms", "last_pause": "1s"}
	}
	return f.place.writeYAML(f.place.Config("serve.yaml"), doc)
}

// hostTrust is what every host must know of the others.
type hostTrust struct {
	lifecycleDID string
	gateways     string // key set files
	operators    string
}

func (f *Fleet) writeHost(h Host, trust hostTrust) error {
	if err := os.MkdirAll(f.place.HostState(h.Replica), 0o700); err != nil {
		return unavailable("dev.directory", "the state directory of a host cannot be made", err)
	}
	secret := f.place.Secret("desk." + h.Tenant + ".token")
	if _, err := writeOnce(secret, func() ([]byte, error) { return randomText("desk_"), nil }); err != nil {
		return err
	}
	ref := secretRef(h.Tenant)
	return f.place.writeYAML(f.place.Config(h.Replica+".yaml"), tree{
		"replica": h.Replica, "instance": h.Instance, "tenant": h.Tenant, "version": versionID,
		"listen": address(h.Port), "state_dir": f.place.HostState(h.Replica), "identity_key": f.place.keyFile(h.Replica),
		"release":   f.place.Release(),
		"lifecycle": tree{"url": url(f.state.Ports.Lifecycle), "did": trust.lifecycleDID},
		"gateways":  trust.gateways, "operators": trust.operators,
		"capacity": Capacity, "config_revision": 1, "secret_provider_ref": ref,
		"secrets":              tree{"file": tree{ref: secret}},
		"credential_revisions": tree{"current": credential},
		"connector": tree{
			"env":        tree{"TICKETDESK_DIR": f.place.Account(h.Tenant), "TICKETDESK_ACCOUNT": h.Tenant},
			"secret_env": tree{"TICKETDESK_TOKEN": "default"},
		},
	})
}

// secretRef is how the fleet file names the credential of a tenant's account.
func secretRef(tenant string) string {
	return map[string]string{Acme: "env:TICKETDESK_TOKEN_ACME", Globex: "env:TICKETDESK_TOKEN_GLOBEX"}[tenant]
}

// writeConfigs makes the keys and every configuration file, anew at each start: only
// keys, passwords and ports stay.
func (f *Fleet) writeConfigs() error {
	trust, err := f.writeTrust()
	if err != nil {
		return err
	}
	for _, write := range []func() error{f.writeContexts, f.writePolicy, f.writeLifecycle,
		func() error { return f.writeServe(trust.operators) },
		func() error { return f.place.writeTokens(f.options.Now()) },
	} {
		if err := write(); err != nil {
			return err
		}
	}
	for _, h := range f.Hosts() {
		if _, err := f.place.signer(h.Replica); err != nil {
			return err
		}
		if err := f.writeHost(h, trust); err != nil {
			return err
		}
	}
	return nil
}

// writeTrust makes the keys of the planes and the files that say who trusts whom.
func (f *Fleet) writeTrust() (hostTrust, error) {
	lifecycle, err := f.place.signer(keyLifecycle)
	if err != nil {
		return hostTrust{}, err
	}
	trust := hostTrust{lifecycleDID: lifecycle.DID().String()}
	for name, file := range map[string]*string{keyGateway: &trust.gateways, keyOperator: &trust.operators} {
		signer, err := f.place.signer(name)
		if err != nil {
			return hostTrust{}, err
		}
		if *file, err = f.place.keySet(name, signer.DID()); err != nil {
			return hostTrust{}, err
		}
	}
	return trust, nil
}
