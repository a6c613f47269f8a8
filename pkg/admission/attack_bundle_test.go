package admission_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/admission"
)

func bundleAttacks() []attack {
	const sbom, file = "evidence.conformance.", "evidence/conformance.sigstore.json"
	edit := func(name, from, to, code string, also ...string) attack {
		return attack{name: name, do: func(b *bench) { b.replace(file, from, to) }, want: sbom + code, also: also}
	}
	return []attack{
		edit("timestamp that nobody evaluates", `"verificationMaterial": {`, `"verificationMaterial": {"timestampVerificationData": {"rfc3161Timestamps": [{"signedTimestamp": "AAAA"}]},`, "bundle_log_not_evaluated"),
		edit("bundle of an unknown version", "bundle.v0.3+json", "bundle.v9.9+json", "bundle_media_type"),
		edit("bundle with a duplicate key", `"mediaType"`, `"mediaType": "x", "mediaType"`, "bundle_malformed"),
		edit("bundle with two spellings of a key", `"mediaType"`, `"media_type": "x", "mediaType"`, "bundle_malformed"),
		edit("bundle with two signatures", `"signatures": [`, `"signatures": [{"sig": "AAAA"},`, "bundle_signature_count"),
		edit("inclusion proof without a checkpoint", `"verificationMaterial": {`,
			`"verificationMaterial": {"tlogEntries": [{"logId": {"keyId": "AAAA"}, "inclusionProof": {"treeSize": "1"}}],`, "log_proof_without_checkpoint"),
		edit("one log counted twice", `"verificationMaterial": {`,
			`"verificationMaterial": {"tlogEntries": [{"logId": {"keyId": "AAAA"}, "logIndex": "1"}, {"logId": {"keyId": "AAAA"}, "logIndex": "2"}],`, "log_repeated"),
		edit("33 log entries", `"verificationMaterial": {`, `"verificationMaterial": {"tlogEntries": [`+strings.Repeat(`{"logIndex": "1"},`, 32)+`{"logIndex": "1"}],`, "bundle_too_large"),
		{name: "weak message digest", do: func(b *bench) {
			b.bare()
			b.replace("evidence/signature.sigstore.json", "SHA2_256", "SHA2_384")
		}, want: "evidence.signature.message_digest_weak", also: []string{"release.unbound"}},
		{name: "huge bundle", do: func(b *bench) { b.write("conformance", b.read(file)+strings.Repeat(" ", 3<<20)) }, want: sbom + "bundle_too_large"},
	}
}

func packageAttacks() []attack {
	return []attack{
		{name: "artifact swapped after signing", do: func(b *bench) { b.replace("artifact/desk-mcp", "desk", "dusk") }, want: "evidence.signature.subject_mismatch",
			also: []string{
				"evidence.approval.subject_mismatch", "evidence.conformance.subject_mismatch", "evidence.provenance.subject_mismatch",
				"evidence.sbom.subject_mismatch", "evidence.vulnerability.subject_mismatch",
			}},
		{name: "manifest changed after signing", do: func(b *bench) { b.replace("manifest.json", `"write"`, `"read"`) }, want: "evidence.signature.manifest_mismatch",
			also: []string{"evidence.conformance.subject_mismatch", "manifest.unbound"}},
		{name: "release.yaml changed after signing", do: func(b *bench) { b.replace("release.yaml", "release_sequence: 3", "release_sequence: 9") }, want: "evidence.signature.release_disagrees",
			also: []string{"evidence.signature.release_mismatch", "release.unbound"}},
		{name: "release.yaml reworded after signing", do: func(b *bench) { b.replace("release.yaml", "cver_desk1", "cver_desk2") }, want: "evidence.signature.release_mismatch",
			also: []string{"release.unbound"}},
		{name: "huge evidence", do: func(b *bench) { b.write("conformance", strings.Repeat(" ", 9<<20)) }, want: "package.too_large", also: []string{"package.unreadable"}},
		{name: "path leaves the package", do: func(b *bench) { b.replace("release.yaml", "artifact/desk-mcp", "artifact/../../etc/passwd") }, want: "release.malformed",
			also: []string{"artifact.missing", "package.unexpected_file"}},
		{name: "symlink as evidence", do: func(b *bench) {
			b.remove("conformance")
			must(b.t, os.Symlink("sbom.sigstore.json", filepath.Join(b.dir, "evidence/conformance.sigstore.json")))
		}, want: "package.link", also: []string{"evidence.conformance.missing"}},
		{name: "symlink inside the artifact", do: func(b *bench) {
			must(b.t, os.Symlink("/etc/passwd", filepath.Join(b.dir, "artifact/extra")))
		}, want: "package.link"},
		{name: "file that no slot evaluates", do: func(b *bench) {
			must(b.t, os.WriteFile(filepath.Join(b.dir, "run.sh"), []byte("x"), 0o600))
		}, want: "package.unexpected_file", also: []string{"package.unreadable"}},
		{name: "file beside the artifact", do: func(b *bench) {
			must(b.t, os.WriteFile(filepath.Join(b.dir, "artifact/other"), []byte("x"), 0o600))
		}, want: "package.unexpected_file"},
		{name: "artifact too large", do: func(b *bench) { b.limits.ArtifactBytes = 4 }, want: "package.too_large"},
		{name: "archive with a path that leaves it", instead: func(b *bench) []string {
			archive := []byte(strings.Replace(string(b.pkg().Archive()), "evidence/sbom.sigstore.json", "../../../../etc/cron.d/evil", 1))
			_, found := admission.ReadArchive(archive, admission.Limits{})
			return codes(found)
		}, want: "package.archive"},
		{name: "archive whose index is not its content", instead: func(b *bench) []string {
			archive := []byte(strings.Replace(string(b.pkg().Archive()), "desk-team", "evil-team", 1))
			_, found := admission.ReadArchive(archive, admission.Limits{})
			return codes(found)
		}, want: "package.archive"},
	}
}

// keylessAttacks are on a build that signs with short-lived certificates.
func keylessAttacks() []attack {
	const prov = "evidence.provenance."
	keyless := func(name, code string, do func(b *bench), also ...string) attack {
		return attack{name: name, do: do, want: prov + code, also: also, make: func(t testing.TB) *bench { return newCloudBench(t) }}
	}
	put := func(s *signed, b *bench) { b.write("provenance", s.json()) }
	other := func(b *bench) *cloud { return newCloud(b.t) }
	return []attack{
		keyless("short-lived certificate without a timestamp", "time_unknown", func(b *bench) {
			b.root()["log_entries"], b.root()["timestamps"], b.root()["signed_timestamps"] = 0, 0, 0
			put(b.cloud.attest(honest(), b.genuine("provenance")), b)
		}),
		keyless("certificate expired when it signed", "certificate_expired", func(b *bench) {
			b.root()["log_entries"], b.root()["timestamps"] = 0, 1
			s := b.cloud.attest(leaf{subject: ciSubject, issuer: ciIssuer, from: -time.Hour, life: 10 * time.Minute}, b.genuine("provenance"))
			put(s.stamped(b.cloud, s.sig), b)
		}),
		keyless("log saw it after the certificate's life", "log_time_outside_certificate", func(b *bench) {
			s := b.cloud.attest(leaf{subject: ciSubject, issuer: ciIssuer, from: -10 * time.Minute, life: 10*time.Minute + 30*time.Second}, b.genuine("provenance"))
			put(s.logged(s.entry(b.cloud, time.Minute)).stamped(b.cloud, s.sig), b)
		}),
		keyless("certificate authority expired before the leaf", "certificate_authority_expired", func(b *bench) {
			b.cloud.until = b.cloud.now.Add(-30 * time.Second)
			b.root()["trusted_root"] = b.cloud.trusted()
		}),
		keyless("certificate of another authority", "certificate_untrusted", func(b *bench) {
			theirs := other(b)
			s := theirs.attest(honest(), b.genuine("provenance"))
			put(s.logged(s.entry(b.cloud, time.Minute)).stamped(b.cloud, s.sig), b)
		}),
		keyless("unanchored identity", "unknown_identity", func(b *bench) {
			put(b.build(leaf{subject: "https://ci.example/evil/release.yml@refs/tags/v1.0.0", issuer: ciIssuer, from: -time.Minute, life: 10 * time.Minute}), b)
		}),
		keyless("identity of another issuer", "unknown_identity", func(b *bench) {
			put(b.build(leaf{subject: ciSubject, issuer: "https://login.evil", from: -time.Minute, life: 10 * time.Minute}), b)
		}),
		keyless("identity that is the bare prefix", "unknown_identity", func(b *bench) {
			put(b.build(leaf{subject: "https://ci.example/desk/release.yml@refs/tags/v", issuer: ciIssuer, from: -time.Minute, life: 10 * time.Minute}), b)
		}),
		keyless("certificate that names two", "certificate_identity", func(b *bench) {
			put(b.build(leaf{subject: ciSubject, issuer: ciIssuer, from: -time.Minute, life: 10 * time.Minute, also: "https://ci.example/evil"}), b)
		}),
		keyless("certificate that lives too long", "certificate_lifetime", func(b *bench) {
			b.policy["max_validity"] = "20m"
			for _, k := range b.policy["keys"].([]any) {
				k.(object)["not_before"], k.(object)["not_after"] = b.at.Add(-10*time.Minute).Format(time.RFC3339), b.at.Add(10*time.Minute).Truncate(time.Second).Format(time.RFC3339)
			}
			put(b.build(leaf{subject: ciSubject, issuer: ciIssuer, from: -time.Minute, life: 40 * time.Minute}), b)
		}),
		keyless("log entry of another artifact", "log_entry_of_another", func(b *bench) {
			theirs := b.cloud.attest(honest(), b.statement(admission.PredicateProvenance, "{}"))
			s := b.cloud.attest(honest(), b.genuine("provenance"))
			put(s.logged(theirs.entry(b.cloud, time.Minute)).stamped(b.cloud, s.sig), b)
		}),
		keyless("log entry of another key", "log_entry_of_another", func(b *bench) {
			theirs := b.cloud.attest(honest(), b.genuine("provenance"))
			s := b.cloud.attest(honest(), b.genuine("provenance"))
			put(s.logged(theirs.entry(b.cloud, time.Minute)).stamped(b.cloud, s.sig), b)
		}),
		keyless("log that nobody trusts", "log_unknown", func(b *bench) {
			s := b.cloud.attest(honest(), b.genuine("provenance"))
			put(s.logged(s.entry(other(b), time.Minute)).stamped(b.cloud, s.sig), b)
		}),
		keyless("log time changed", "log_entry_invalid", func(b *bench) {
			s := b.build(honest())
			s.bundle.VerificationMaterial.TlogEntries[0].IntegratedTime--
			put(s, b)
		}),
		keyless("proof of another tree", "log_entry_invalid", func(b *bench) {
			s := b.build(honest())
			s.bundle.VerificationMaterial.TlogEntries[0].InclusionProof.RootHash = make([]byte, 32)
			put(s, b)
		}),
		keyless("proof without a checkpoint", "log_proof_without_checkpoint", func(b *bench) {
			s := b.build(honest())
			s.bundle.VerificationMaterial.TlogEntries[0].InclusionProof.Checkpoint = nil
			put(s, b)
		}),
		keyless("promise in place of a proof", "log_proof_missing", func(b *bench) {
			s := b.build(honest())
			s.bundle.MediaType = "application/vnd.dev.sigstore.bundle+json;version=0.1"
			s.bundle.VerificationMaterial.TlogEntries[0].InclusionProof = nil
			put(s, b)
		}),
		keyless("no log where one is needed", "log_threshold", func(b *bench) {
			s := b.cloud.attest(honest(), b.genuine("provenance"))
			put(s.stamped(b.cloud, s.sig), b)
		}),
		keyless("fewer logs than the policy asks for", "log_threshold", func(b *bench) { b.root()["log_entries"] = 2 }),
		keyless("no signed timestamp where one is needed", "timestamp_threshold", func(b *bench) {
			s := b.cloud.attest(honest(), b.genuine("provenance"))
			put(s.logged(s.entry(b.cloud, time.Minute)), b)
		}),
		keyless("one timestamp authority counted twice", "timestamp_repeated", func(b *bench) {
			s := b.build(honest())
			put(s.stamped(b.cloud, s.sig), b)
		}),
		keyless("timestamp over another signature", "timestamp_invalid", func(b *bench) {
			s := b.cloud.attest(honest(), b.genuine("provenance"))
			put(s.logged(s.entry(b.cloud, time.Minute)).stamped(b.cloud, []byte("another")), b)
		}),
		keyless("timestamp by nobody known", "timestamp_invalid", func(b *bench) {
			s := b.cloud.attest(honest(), b.genuine("provenance"))
			put(s.logged(s.entry(b.cloud, time.Minute)).stamped(other(b), s.sig), b)
		}),
		keyless("signature by another key than the certificate's", "signature_invalid", func(b *bench) {
			b.root()["log_entries"], b.root()["timestamps"], b.root()["signed_timestamps"] = 0, 1, 0
			s := b.cloud.attest(honest(), b.genuine("provenance"))
			theirs := b.cloud.attest(honest(), b.genuine("provenance"))
			s.bundle.GetDsseEnvelope().Signatures[0].Sig = theirs.sig
			put(s.stamped(b.cloud, theirs.sig), b)
		}),
		keyless("evidence made after it was signed", "time_disagrees", func(b *bench) {
			statement := strings.Replace(b.genuine("provenance"), b.stamp(-24), b.stamp(1), 1)
			b.rule("provenance")["max_age"] = "24h"
			b.at = b.at.Add(2 * time.Hour)
			s := b.cloud.attest(honest(), statement)
			put(s.logged(s.entry(b.cloud, time.Minute)).stamped(b.cloud, s.sig), b)
		}),
		keyless("evaluated before it was signed", "seen_in_the_future", func(b *bench) {
			s := b.build(honest())
			b.at = b.at.Add(-20 * time.Minute)
			put(s, b)
		}),
		keyless("key in place of a certificate", "signer_not_allowed", func(b *bench) {
			b.rule("provenance")["builders"] = append(b.rule("provenance")["builders"].([]any), object{"signer": "build", "builder_id": "https://builds.example/desk"})
			b.write("provenance", b.sign("build", b.genuine("provenance")))
		}),
	}
}
