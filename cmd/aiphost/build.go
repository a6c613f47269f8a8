package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/connector/mcp"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/host/secret"
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
	secrets := secret.Chain{secret.Files(d.cfg.Secrets.File), secret.Env{Names: d.cfg.Secrets.Env, Lookup: d.env}}
	d.adapter = mcp.New(mcp.Config{
		Program: d.program, Env: d.childEnv(), Manifest: d.parts.release.Manifest(), Log: d.log.With("part", "connector"), Now: d.now,
		Secrets: func(ctx context.Context) (map[string]connector.Secret, error) { return d.childSecrets(ctx, secrets) },
	})
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
	var err error
	d.host, err = host.New(host.Config{
		Identity: identity, Manifest: d.parts.release.Manifest(), Signer: d.parts.signer, Gateways: d.parts.gateways,
		Operators: d.parts.operators, Journal: d.journal, Connector: d.adapter, Lease: d.lease, Capacity: d.cfg.Capacity,
		Credentials: host.Credentials{Current: d.cfg.CredentialRevisions.Current, Previous: d.cfg.CredentialRevisions.Previous},
		Now:         d.now, Log: d.log,
	})
	if err != nil {
		return err
	}
	d.server = &http.Server{
		Handler: d.host.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelWarn),
	}
	return nil
}

func (d *daemon) registration(id host.Identity) protocol.Register {
	return protocol.Register{
		Replica: id.Replica, ManifestDigest: id.ManifestDigest, ArtifactDigest: id.ArtifactDigest, Tenant: id.Tenant,
		ConfigRevision: d.cfg.ConfigRevision, SecretProviderRef: d.cfg.SecretProviderRef,
		CapabilityCount: uint32(len(d.parts.release.Manifest().Capabilities)),
		Capacity:        uint32(d.cfg.Capacity), Journal: d.journal.ID(),
	}
}

// program unpacks the artifact anew before each start and proves its digest (G28).
// What an earlier start unpacked is removed first.
func (d *daemon) program(context.Context) (mcp.Program, error) {
	root := filepath.Join(d.cfg.StateDir, "artifact")
	if err := os.RemoveAll(root); err != nil {
		return mcp.Program{}, fleet.Errorf(fleet.Unavailable, "artifact.directory", "the artifact directory cannot be emptied").Caused(err)
	}
	extracted, err := d.parts.release.ExtractArtifact(root, d.parts.release.ArtifactDigest())
	if err != nil {
		return mcp.Program{}, err
	}
	work := d.workDir()
	if err := os.MkdirAll(work, 0o700); err != nil {
		return mcp.Program{}, fleet.Errorf(fleet.Unavailable, "artifact.directory", "the connector's directory cannot be made").Caused(err)
	}
	p := mcp.Program{Path: extracted.Path, Args: d.cfg.Connector.Args, Dir: work}
	if extracted.Interpreter == "" {
		return p, nil
	}
	interpreter, ok := d.cfg.Connector.Interpreters[extracted.Interpreter]
	if !ok {
		return p, fleet.Errorf(fleet.Invalid, codeConfig, "the release needs the interpreter %s", extracted.Interpreter).
			Advise("name its path under connector.interpreters")
	}
	p.Path, p.Args = interpreter, append([]string{extracted.Path}, p.Args...)
	return p, nil
}

func (d *daemon) workDir() string { return filepath.Join(d.cfg.StateDir, "work") }

// childEnv is the connector's environment without its credentials. Nothing of the
// host's own environment is passed on.
func (d *daemon) childEnv() []string {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + d.workDir(), "TMPDIR=" + d.workDir()}
	for name, value := range d.cfg.Connector.Env {
		env = append(env, name+"="+value)
	}
	slices.Sort(env[3:])
	return env
}

// ownRef in secret_env stands for the instance's own reference.
const ownRef = "default"

func (d *daemon) childSecrets(ctx context.Context, from secret.Provider) (map[string]connector.Secret, error) {
	all := make(map[string]connector.Secret, len(d.cfg.Connector.SecretEnv))
	for name, ref := range d.cfg.Connector.SecretEnv {
		if ref == ownRef {
			ref = d.cfg.SecretProviderRef
		}
		s, err := from.Get(ctx, ref)
		if err != nil {
			return nil, fmt.Errorf("credential for %s: %w", name, err)
		}
		all[name] = s
	}
	return all, nil
}
