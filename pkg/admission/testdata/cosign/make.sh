#!/bin/sh
# Purpose: make desk/, a release package of which every bundle was made by cosign, and
#   the public keys of its two signers.
# Usage: make.sh     with cosign (v3.1.3 was used), jq and sha256sum in PATH; offline.
# Blast radius: replaces desk/ and the .pub files beside it. The private keys are made in a
#   temporary directory and removed: nobody can sign with them again.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export COSIGN_PASSWORD=none HOME="$work"

rm -rf desk
mkdir -p desk/artifact desk/evidence
printf '#!/bin/sh\necho desk\n' >desk/artifact/desk
chmod 755 desk/artifact/desk
cat >desk/release.yaml <<'END'
type: {id: ctype_desk, name: desk}
owner: desk-team
version: "1.0.0"
version_id: cver_desk_by_cosign
release_sequence: 1
aip_versions: ["1.0"]
artifact: {path: artifact/desk}
END
# Canonical: its digest is that of its bytes.
printf '%s' '{"aip_version":"1.0","capabilities":[{"contract":{"idempotency":"natural","side_effects":"read"},"id":"desk:read","input_schema":{"type":"object"},"kind":"tool","name":"read"}],"implementations":[{"adapter":"mcp","capability_id":"desk:read","tool":"read"}],"name":"desk","version":"1.0.0"}' >desk/manifest.json

sha() { sha256sum "$1" | cut -d' ' -f1; }
artifact=$(sha desk/artifact/desk) manifest=$(sha desk/manifest.json) release=$(sha desk/release.yaml)
quiet='--tlog-upload=false --use-signing-config=false --new-bundle-format --yes'
for name in publisher builder; do
	(cd "$work" && cosign generate-key-pair --output-key-prefix "$name")
	cp "$work/$name.pub" "$name.pub"
done
attest() { # SLOT KEY TYPE PREDICATE
	cosign attest-blob desk/artifact/desk --key "$work/$2.key" --type "$3" --predicate "$work/$4" $quiet --bundle "desk/evidence/$1.sigstore.json"
}

cosign sign-blob desk/artifact/desk --key "$work/publisher.key" $quiet --bundle desk/evidence/signature.sigstore.json

cat >"$work/provenance.json" <<END
{"buildDefinition": {"buildType": "https://builds.example/type",
  "externalParameters": {"source": {"repository": "https://git.example/desk", "ref": "refs/tags/v1.0.0"}},
  "resolvedDependencies": [{"uri": "git+https://git.example/desk@refs/tags/v1.0.0", "digest": {"gitCommit": "c0ffee"}}]},
 "runDetails": {"builder": {"id": "https://builds.example/desk"}, "metadata": {"finishedOn": "2026-05-31T12:00:00Z"},
  "byproducts": [{"name": "manifest.json", "digest": {"sha256": "$manifest"}}, {"name": "release.yaml", "digest": {"sha256": "$release"}}]}}
END
attest provenance builder slsaprovenance1 provenance.json

cat >"$work/sbom.json" <<END
{"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "desk", "documentNamespace": "https://builds.example/desk/1.0.0",
 "creationInfo": {"created": "2026-05-31T12:00:00Z", "creators": ["Tool: example"]}, "documentDescribes": ["SPDXRef-artifact"],
 "packages": [
  {"SPDXID": "SPDXRef-artifact", "name": "desk", "downloadLocation": "NOASSERTION", "checksums": [{"algorithm": "SHA256", "checksumValue": "$artifact"}]},
  {"SPDXID": "SPDXRef-lib", "name": "lib", "versionInfo": "1.0", "downloadLocation": "NOASSERTION", "licenseConcluded": "MIT"}]}
END
attest sbom builder spdxjson sbom.json

# A scan names the bill by its bytes inside the signed statement.
bill=$(jq -r .dsseEnvelope.payload desk/evidence/sbom.sigstore.json | base64 -d | jq -c .predicate | tr -d '\n' | sha256sum | cut -d' ' -f1)
cat >"$work/scan.json" <<END
{"format": "grype", "sbom_digest": "sha256:$bill", "scanned_at": "2026-06-01T10:00:00Z", "report": {"descriptor": {"name": "grype"},
 "matches": [{"vulnerability": {"id": "CVE-2026-1", "severity": "High"}, "artifact": {"name": "lib", "version": "1.0"}}]}}
END
attest vulnerability builder https://github.com/aipfleet/aipfleet/attestation/scan/v1 scan.json
cat >"$work/vex.json" <<END
{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "https://git.example/desk/vex", "author": "desk-team", "timestamp": "2026-06-01T11:00:00Z", "version": 1,
 "statements": [{"vulnerability": {"name": "CVE-2026-1"}, "products": [{"@id": "pkg:generic/desk@sha256:$artifact"}],
  "status": "not_affected", "justification": "vulnerable_code_not_in_execute_path"}]}
END
attest vulnerability.2 publisher openvex vex.json

# Two subjects need a statement of one's own.
cat >"$work/conformance.json" <<END
{"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
 "subject": [{"name": "artifact/desk", "digest": {"sha256": "$artifact"}}, {"name": "manifest.json", "digest": {"sha256": "$manifest"}}],
 "predicate": {"result": "PASSED", "configuration": [{"name": "aipfleet-conformance", "annotations": {"finishedOn": "2026-06-01T09:00:00Z"}}], "passedTests": ["starts"]}}
END
cosign attest-blob --statement "$work/conformance.json" --key "$work/builder.key" $quiet --bundle desk/evidence/conformance.sigstore.json
chmod 644 desk/evidence/*
