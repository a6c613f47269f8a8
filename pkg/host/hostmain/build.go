package hostmain

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/lifecycle"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// parts are what the configuration names, loaded and proved.
type parts struct {
	signer    envelope.Signer
	gateways  envelope.KeySet
	operators envelope.KeySet
	release   *admission.Package
	lifecycle peer.Endpoint
	addresses peer.AddressPolicy
}

func loadParts(cfg config) (parts, error) {
	var p parts
	var err error
	if p.signer, err = envelope.LoadSigner(cfg.IdentityKey); err != nil {
		return p, err
	}
	if p.gateways, err = envelope.LoadKeySet(cfg.Gateways); err != nil {
		return p, err
	}
	if cfg.Operators != "" {
		if p.operators, err = envelope.LoadKeySet(cfg.Operators); err != nil {
			return p, err
		}
	}
	if p.release, err = admission.OpenPackage(cfg.Release, admission.Limits{}); err != nil {
		return p, err
	}
	if err = p.release.Inside(); err != nil {
		return p, err
	}
	if id := p.release.Release().VersionID; !id.IsZero() && id != cfg.Version {
		return p, fleet.Errorf(fleet.NotAdmitted, codeConfig, "the release is %s and the host is configured for %s", id, cfg.Version)
	}
	if p.lifecycle, err = peer.ParseEndpoint(cfg.Lifecycle.URL); err != nil {
		return p, err
	}
	p.addresses = peer.LoopbackPolicy()
	more, err := peer.ParseAllow(cfg.Lifecycle.AllowRanges)
	p.addresses.Allow = append(p.addresses.Allow, more.Allow...)
	return p, err
}

// build makes every part of the host. Nothing runs yet.
func (d *daemon) build() error {
	provider, err := d.cfg.Secrets.provider(d.env, d.now)
	if err != nil {
		return err
	}
	d.secrets.set(provider)
	product, err := d.connector()
	if err != nil {
		return err
	}
	d.life = product.life
	identity := host.Identity{
		Tenant: d.cfg.Tenant, Instance: d.cfg.Instance, Replica: d.cfg.Replica, Version: d.cfg.Version,
		ManifestDigest: d.parts.release.ManifestDigest(), ArtifactDigest: d.parts.release.ArtifactDigest(),
	}
	d.lease = lifecycle.NewClient(lifecycle.ClientConfig{
		Register: d.registration(identity), Signer: d.parts.signer, Server: d.parts.lifecycle, Peer: d.cfg.Lifecycle.DID,
		Sender: peer.NewClient(peer.Config{Addresses: d.parts.addresses, MaxResponse: protocol.MaxControlBytes}),
		Epochs: d.journal, Report: func(ctx context.Context) lifecycle.Report { return d.host.Report(ctx) },
		Now: d.now, Log: d.log.With("part", "lease"),
	})
	if d.host, err = host.New(d.hostConfig(identity, product.Connector)); err != nil {
		return err
	}
	d.server = &http.Server{
		Handler: d.host.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(d.log.Handler(), slog.LevelWarn),
	}
	return nil
}

// maxHeaderBytes is far above what a gateway sends.
const maxHeaderBytes = 32 << 10

func (d *daemon) hostConfig(identity host.Identity, product connector.Connector) host.Config {
	cfg := host.Config{
		Identity: identity, Manifest: d.parts.release.Manifest(), Signer: d.parts.signer, Gateways: d.parts.gateways,
		Operators: d.parts.operators, Journal: d.journal, Connector: product, Lease: d.lease, Capacity: d.cfg.Capacity,
		Credentials: d.cfg.CredentialRevisions.policy(), Retention: d.cfg.Retention.policy(), DecisionAge: d.cfg.DecisionMaxAge,
		Secrets: &d.secrets, Now: d.now, Log: d.log,
	}
	// A server in a process of its own has its credentials from its start; every other
	// connector gets them with each call.
	if d.parts.release.Manifest().Adapter() != fleet.AdapterMCP && !d.cfg.Secrets.none() {
		cfg.SecretRef = d.cfg.SecretProviderRef
	}
	return cfg
}

func (d *daemon) registration(id host.Identity) protocol.Register {
	return protocol.Register{
		Replica: id.Replica, ManifestDigest: id.ManifestDigest, ArtifactDigest: id.ArtifactDigest, Tenant: id.Tenant,
		ConfigRevision: d.cfg.ConfigRevision, SecretProviderRef: d.cfg.SecretProviderRef,
		CapabilityCount: uint32(len(d.parts.release.Manifest().Capabilities)),
		Capacity:        uint32(d.cfg.Capacity), Journal: d.journal.ID(),
	}
}
