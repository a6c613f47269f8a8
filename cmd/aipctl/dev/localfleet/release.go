package localfleet

import (
	"context"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/examples/ticketdesk"
)

// Connector is the first part of the example's capability ids.
const Connector = "ticketdesk"

// TrustPolicy is the file with the fleet's trust policy.
func (f *Fleet) TrustPolicy() string { return f.place.Config("trust.yaml") }

// publish makes the release and puts it into the registry: once each, and in the
// order in which a publisher and an operator would.
func (f *Fleet) publish(ctx context.Context) error {
	for _, s := range []struct {
		name string
		run  func(context.Context) error
	}{{stepTrusted, f.trust}, {stepPacked, f.pack}, {stepAdmitted, f.admit}, {stepPromoted, f.promote}} {
		if f.state.Done[s.name] {
			continue
		}
		if err := s.run(ctx); err != nil {
			return err
		}
		if err := f.done(s.name); err != nil {
			return err
		}
	}
	return f.apply(ctx)
}

// trust makes the keys of everybody who vouches for a release, and puts the policy
// that names them into force.
func (f *Fleet) trust(ctx context.Context) error {
	for _, s := range signers() {
		if _, err := os.Stat(f.signerKey(s)); err == nil {
			continue
		}
		if _, err := f.must(ctx, "release", "keygen", f.signerKey(s)); err != nil {
			return err
		}
	}
	if err := f.writeTrustPolicy(); err != nil {
		return err
	}
	_, err := f.must(ctx, "trust", "apply", f.TrustPolicy(), "--yes", "--reason", "whom this private fleet trusts")
	return err
}

// pack makes the package with all its evidence. A half-made one of an earlier start is
// thrown away.
func (f *Fleet) pack(ctx context.Context) error {
	f.say("packing the release of %s, running it against its scenarios, and signing", Connector)
	return f.packFrom(ctx, ticketdesk.Release(), f.programs.path("ticketdesk"), f.place.Release())
}

// PackNext makes a later release of the same program into a directory: its artifact
// is a folder with the program in it, since two versions never share an artifact.
func (f *Fleet) PackNext(ctx context.Context, dir string) error {
	var release tree
	if err := yaml.Unmarshal(ticketdesk.Release(), &release); err != nil {
		return unavailable("dev.release", "the example's release cannot be read", err)
	}
	release["version"], release["version_id"], release["release_sequence"] = "1.1.0", "cver_ticketdesk_1.1.0", 2
	release["artifact"] = tree{"path": "artifact/desk", "entrypoint": "ticketdesk"}
	text, err := yaml.Marshal(release)
	if err != nil {
		return unavailable("dev.release", "the release cannot be written", err)
	}
	folder := filepath.Join(f.place.dir, "next")
	program, err := os.ReadFile(f.programs.path("ticketdesk"))
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "ticketdesk"), program, 0o755)
	}
	if err != nil {
		return unavailable("dev.release", "the release cannot be written", err)
	}
	return f.packFrom(ctx, text, folder, dir)
}

// packFrom packs an artifact under a description, and has everybody vouch for it.
func (f *Fleet) packFrom(ctx context.Context, description []byte, artifact, dir string) error {
	for _, step := range []func() error{
		func() error { return os.RemoveAll(dir) },
		func() error { return os.MkdirAll(f.source(""), 0o755) },
		func() error { return writeFile(f.source("release.yaml"), description, 0o644) },
	} {
		if err := step(); err != nil {
			return unavailable("dev.release", "the release cannot be written", err)
		}
	}
	if _, err := f.must(ctx, "release", "pack", f.source(""), "--artifact", artifact, "--out", dir, "--discover"); err != nil {
		return err
	}
	return f.vouch(ctx, dir)
}

// admit puts the release into the registry.
func (f *Fleet) admit(ctx context.Context) error {
	if _, err := f.must(ctx, "admit", "release", f.place.Release(), "--yes", "--reason", "first release of the private fleet"); err != nil {
		return err
	}
	f.say("admitted the release: signature, provenance, sbom, vulnerability, conformance and approval were evaluated")
	return nil
}

// writeTrustPolicy completes the example's trust policy with the fleet's own keys.
// They are trusted as long as the fleet lives.
func (f *Fleet) writeTrustPolicy() error {
	var policy tree
	if err := yaml.Unmarshal(ticketdesk.Policy(), &policy); err != nil {
		return unavailable("dev.config", "the example's trust policy cannot be read", err)
	}
	var keys []tree
	for _, id := range signers() {
		public, err := os.ReadFile(f.signerKey(id) + ".pub")
		if err != nil {
			return unavailable("dev.keys", "a public key cannot be read", err)
		}
		keys = append(keys, tree{"id": id, "public_key": string(public)})
	}
	policy["keys"] = keys
	return f.place.writeYAML(f.TrustPolicy(), policy)
}

func (f *Fleet) promote(ctx context.Context) error {
	_, err := f.must(ctx, "promote", "version", versionID, "--yes", "--reason", "the release was verified")
	return err
}

// apply publishes the fleet file; without differences nothing is published.
func (f *Fleet) apply(ctx context.Context) error {
	text, err := renderFleet(f.Hosts(), func(replica string) (string, error) {
		signer, err := f.place.signer(replica)
		return signer.DID().String(), err
	})
	if err != nil {
		return err
	}
	if err := writeFile(f.place.FleetFile(), text, 0o644); err != nil {
		return err
	}
	_, err = f.must(ctx, "apply", "-f", f.place.FleetFile(), "--yes", "--reason", "the private fleet")
	return err
}
