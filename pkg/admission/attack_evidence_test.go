package admission_test

import (
	"strings"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

func hexOf(s string) string { return fleet.DigestBytes([]byte(s)).Hex() }

// genuineHex and foreignHex are the artifact's digest and another one's.
func genuineHex() string { return hexOf(artifactBytes) }
func foreignHex() string { return hexOf("another artifact") }

func statementAttacks() []attack {
	const prov = "evidence.provenance."
	genuine, foreign := genuineHex(), foreignHex()
	subject := `[{"name":"desk","digest":{"sha256":"` + genuine + `"}}]`
	return []attack{
		{name: "attestation of another artifact", do: bent("sbom", "build", genuine, foreign), want: "evidence.sbom.subject_mismatch"},
		{name: "attestation swapped between slots", do: func(b *bench) { b.write("sbom", b.read("evidence/provenance.sigstore.json")) },
			want: "evidence.sbom.predicate_type", also: []string{"evidence.sbom.format", "evidence.vulnerability.sbom_mismatch"}},
		{name: "two subjects", do: bent("provenance", "build", subject, subject[:len(subject)-1]+`,{"name":"x","digest":{"sha256":"`+foreign+`"}}]`), want: prov + "subject_count"},
		{name: "match only in subject 1", do: bent("provenance", "build", subject, `[{"name":"x","digest":{"sha256":"`+foreign+`"}},`+subject[1:]), want: prov + "subject_count"},
		{name: "no subject", do: bent("provenance", "build", subject, `[]`), want: prov + "subject_count"},
		{name: "statement type unknown", do: bent("provenance", "build", "Statement/v1", "Statement/v7"), want: prov + "statement_type"},
		{name: "statement type 0.1 without the policy's word", do: bent("provenance", "build", "Statement/v1", "Statement/v0.1"), want: prov + "statement_type"},
		{name: "predicate type missing", do: bent("provenance", "build", `"predicateType":"https://slsa.dev/provenance/v1",`, ""), want: prov + "predicate_type_missing"},
		{name: "predicate type of another slot", do: bent("provenance", "build", "https://slsa.dev/provenance/v1", "https://spdx.dev/Document"), want: prov + "predicate_type"},
		{name: "publish attestation offered as provenance", do: bent("provenance", "build", "https://slsa.dev/provenance/v1", "https://github.com/npm/attestation/tree/main/specs/publish/v0.1"), want: prov + "predicate_type"},
		{name: "predicate type with another case", do: bent("provenance", "build", "slsa.dev/provenance/v1", "slsa.dev/Provenance/v1"), want: prov + "predicate_type"},
		{name: "custom payload type", do: customPayloadType, want: prov + "payload_type"},
		{name: "sha1 alone", do: bent("provenance", "build", `"sha256":"`+genuine, `"sha1":"da39a3ee5e6b4b0d3255bfef95601890afd80709`),
			want: prov + "subject_digest_missing", also: []string{prov + "subject_digest_weak"}},
		{name: "no digest at all", do: bent("provenance", "build", `"digest":{"sha256":"`+genuine+`"}`, `"digest":{}`), want: prov + "subject_digest_missing"},
		{name: "sha256 beside a weaker digest", do: bent("provenance", "build", `"digest":{`, `"digest":{"sha1":"da39a3ee5e6b4b0d3255bfef95601890afd80709",`), want: prov + "subject_digest_weak"},
		{name: "sha512 without the policy's word", do: bent("provenance", "build", `"digest":{`, `"digest":{"sha512":"`+strings.Repeat("ab", 64)+`",`), want: prov + "subject_digest_weak"},
		{name: "sha512 that disagrees", do: func(b *bench) {
			b.rule("provenance")["subject_digests"] = []any{"sha512"}
			bent("provenance", "build", `"digest":{`, `"digest":{"sha512":"`+strings.Repeat("ab", 64)+`",`)(b)
		}, want: prov + "subject_mismatch"},
		{name: "digest in upper case", do: bent("provenance", "build", genuine, strings.ToUpper(genuine)), want: prov + "subject_mismatch"},
		{name: "duplicate key in the payload", do: bent("provenance", "build", `{"_type"`, `{"subject":[],"_type"`), want: prov + "statement_malformed"},
		{name: "duplicate key after unescaping", do: bent("provenance", "build", `{"_type"`, `{"s\u0075bject":[],"_type"`), want: prov + "statement_malformed"},
		{name: "case variant key in the payload", do: bent("provenance", "build", `"subject"`, `"SUBJECT"`), want: prov + "statement_malformed"},
		{name: "case variant key in the predicate", do: bent("provenance", "build", `"builder":`, `"Builder":`), want: prov + "predicate_malformed"},
		{name: "unknown key beside the statement's", do: bent("provenance", "build", `{"_type"`, `{"x":1,"_type"`), want: prov + "statement_malformed"},
		{name: "lone surrogate in the payload", do: bent("provenance", "build", `"name":"desk"`, `"name":"\ud800"`), want: prov + "statement_malformed"},
		{name: "two values in the payload", do: func(b *bench) { b.write("provenance", b.sign("build", b.genuine("provenance")+"{}")) }, want: prov + "statement_malformed"},
		{name: "nesting without end", do: bent("provenance", "build", `"metadata": {`, `"x": `+strings.Repeat("[", 40)+strings.Repeat("]", 40)+`, "metadata": {`), want: prov + "statement_malformed"},
		{name: "number beyond 2^53", do: bent("sbom", "build", `"name": "lib"`, `"name": "lib", "size": 9007199254740993`), want: "evidence.sbom.statement_malformed",
			also: []string{"evidence.vulnerability.sbom_mismatch"}},
	}
}

// customPayloadType signs genuine bytes under a payload type of the attacker.
func customPayloadType(b *bench) {
	b.replace("evidence/provenance.sigstore.json", admission.PayloadInToto, "application/json")
	b.evaluator.Bundles = anySignature{b.evaluator.Bundles}
}

func signerAttacks() []attack {
	const prov = "evidence.provenance."
	return []attack{
		{name: "missing slot", do: func(b *bench) { b.remove("conformance") }, want: "evidence.conformance.missing"},
		{name: "extra slot", do: func(b *bench) { b.write("other", b.read("evidence/sbom.sigstore.json")) }, want: "evidence.extra"},
		{name: "duplicate slot", do: func(b *bench) { b.write("provenance.2", b.read("evidence/provenance.sigstore.json")) },
			want: prov + "duplicate", also: []string{prov + "signer_repeated"}},
		{name: "second opinion that nobody asked for", do: func(b *bench) {
			b.rule("provenance")["signers"] = []any{"build", "release"}
			b.rule("provenance")["builders"] = []any{object{"signer": "build", "builder_id": "https://builds.example/desk"}, object{"signer": "release", "builder_id": "https://builds.example/desk"}}
			b.policy["distinct_signers"] = []any{}
			b.write("provenance.2", b.sign("release", b.genuine("provenance")))
		}, want: prov + "duplicate"},
		{name: "one key counted twice", do: func(b *bench) {
			b.rule("conformance")["signers"], b.rule("conformance")["count"] = []any{"runner", "build"}, 2
			b.write("conformance.2", b.read("evidence/conformance.sigstore.json"))
		}, want: "evidence.conformance.signer_repeated"},
		{name: "one of two documents", do: func(b *bench) {
			b.rule("conformance")["signers"], b.rule("conformance")["count"] = []any{"runner", "build"}, 2
		}, want: "evidence.conformance.count"},
		{name: "unknown signer", do: func(b *bench) { b.write("provenance", b.sign("stranger", b.genuine("provenance"))) }, want: prov + "unknown_signer"},
		{name: "key trusted for slot A in slot B", do: func(b *bench) {
			b.rule("provenance")["builders"] = []any{object{"signer": "scan", "builder_id": "https://builds.example/desk"}}
			b.write("provenance", b.sign("scan", b.genuine("provenance")))
		}, want: prov + "signer_not_allowed"},
		{name: "test key signs provenance", do: func(b *bench) {
			b.rule("provenance")["signers"] = []any{"build", "other"}
			b.rule("provenance")["builders"] = []any{object{"signer": "other", "builder_id": "https://builds.example/desk"}}
			b.write("provenance", b.sign("other", b.genuine("provenance")))
		}, want: prov + "signer_not_for_type"},
		{name: "signer allowed, builder of another signer", do: func(b *bench) {
			b.rule("provenance")["signers"] = []any{"build", "scan"}
			b.write("provenance", b.sign("scan", b.genuine("provenance")))
		}, want: prov + "builder_not_allowed"},
		{name: "one key for slots that need two", do: func(b *bench) {
			b.rule("provenance")["signers"] = []any{"build", "release"}
			b.rule("provenance")["builders"] = []any{object{"signer": "release", "builder_id": "https://builds.example/desk"}}
			b.write("provenance", b.sign("release", b.genuine("provenance")))
		}, want: "evidence.signers_not_distinct"},
		{name: "signer identity changed outside the signature", do: func(b *bench) {
			b.rule("conformance")["signers"] = []any{"runner", "scan"}
			b.replace("evidence/conformance.sigstore.json", b.signers["runner"].Hint(), b.signers["scan"].Hint())
		}, want: "evidence.conformance.signature_invalid"},
		{name: "payload changed after signing", do: func(b *bench) {
			b.replace("evidence/conformance.sigstore.json", `"payload": "`, `"payload": "e30K`)
		}, want: "evidence.conformance.signature_invalid"},
		{name: "no key named", do: func(b *bench) {
			b.replace("evidence/conformance.sigstore.json", b.signers["runner"].Hint(), "")
		}, want: "evidence.conformance.bundle_hint_missing"},
		{name: "expired key without a timestamp", do: func(b *bench) { b.key("runner")["not_after"] = b.stamp(-1) }, want: "evidence.conformance.key_expired"},
		{name: "key not valid yet", do: func(b *bench) { b.key("runner")["not_before"] = b.stamp(1) }, want: "evidence.conformance.key_not_yet_valid"},
		{name: "bare signature as provenance", do: func(b *bench) { b.write("provenance", b.message("build", b.artifact)) }, want: prov + "not_a_statement"},
		{name: "bare signature binds no manifest", do: func(b *bench) {
			b.bare()
			b.drop("conformance")
		}, want: "manifest.unbound", also: []string{"release.unbound"}},
		{name: "bare signature binds no release", do: func(b *bench) { b.bare() }, want: "release.unbound"},
		{name: "bare signature of another artifact", do: func(b *bench) {
			b.bare()
			b.write("signature", b.message("build", fleet.DigestBytes([]byte("another artifact"))))
		}, want: "evidence.signature.artifact_mismatch", also: []string{"release.unbound"}},
		{name: "bare Ed25519 signature that nobody can verify again", do: func(b *bench) {
			raw := b.message("build", b.artifact)
			b.policy["slots"].(object)["signature"] = object{"signers": []any{"release"}}
			b.write("signature", strings.Replace(raw, b.signers["build"].Hint(), b.signers["release"].Hint(), 1))
		}, want: "evidence.signature.signature_not_repeatable", also: []string{"release.unbound"}},
	}
}

// key is a key of the policy to change.
func (b *bench) key(id string) object {
	for _, k := range b.policy["keys"].([]any) {
		if k.(object)["id"] == id {
			return k.(object)
		}
	}
	b.t.Fatalf("no key %s", id)
	return nil
}

// bare lets the builder sign the bare artifact, as cosign sign-blob does.
func (b *bench) bare() {
	b.rule("signature")["signers"] = []any{"build"}
	b.policy["distinct_signers"] = []any{}
	b.write("signature", b.message("build", b.artifact))
}

// drop takes a slot out of the policy and the package.
func (b *bench) drop(slot string) {
	delete(b.policy["slots"].(object), slot)
	b.remove(slot)
}

func provenanceAttacks() []attack {
	const prov = "evidence.provenance."
	at := func(name, from, to, code string, also ...string) attack {
		return attack{name: name, do: bent("provenance", "build", from, to), want: prov + code, also: also}
	}
	return []attack{
		{name: "stale provenance", do: func(b *bench) { b.rule("provenance")["max_age"] = "20h" }, want: prov + "too_old"},
		{name: "provenance from the future", do: func(b *bench) {
			bent("provenance", "build", b.stamp(-24), b.stamp(24))(b)
		}, want: prov + "from_the_future"},
		at("provenance without a time", "finishedOn", "endedOn", "age_unknown"),
		at("other builder", "https://builds.example/desk", "https://builds.example/laptop", "builder_not_allowed"),
		at("builder not named", `"builder": {"id": "https://builds.example/desk"}`, `"builder": {}`, "builder_missing"),
		{name: "other repository", do: func(b *bench) {
			b.write("provenance", b.sign("build", strings.ReplaceAll(b.genuine("provenance"), "git.example/desk", "git.example/fork")))
		}, want: prov + "source_not_allowed"},
		{name: "other branch", do: func(b *bench) {
			b.write("provenance", b.sign("build", strings.ReplaceAll(b.genuine("provenance"), "refs/tags/v1.0.0", "refs/heads/main")))
		}, want: prov + "source_not_allowed"},
		at("resolved source is another than stated", "desk@refs/tags/v1.0.0", "desk@refs/heads/evil", "source_disagrees"),
		at("no source", `"source":`, `"workflow": {}, "origin":`, "source_missing", prov+"external_parameter_unknown"),
		at("two sources", `"externalParameters": {`, `"externalParameters": {"workflow": {"repository": "https://git.example/desk", "ref": "refs/tags/v1"}, `, "source_missing"),
		at("source in another case", `"repository": "https://git.example/desk"`, `"repository": "https://git.example/desk", "Repository": "https://git.example/fork"`, "source_missing"),
		at("unknown external parameter", `"externalParameters": {`, `"externalParameters": {"ldflags":"-X main.evil=1",`, "external_parameter_unknown"),
		at("byproduct without a digest", `"metadata": {`, `"byproducts": [{"name": "manifest.json"}], "metadata": {`, "byproduct_digest"),
		at("byproduct is another manifest", `"metadata": {`, `"byproducts": [{"name": "manifest.json", "digest": {"sha256": "`+foreignHex()+`"}}], "metadata": {`, "manifest_mismatch"),
		{name: "v0.2 of another builder", do: func(b *bench) { b.provenance02("https://builds.example/laptop", "refs/tags/v1.0.0", "{}") }, want: prov + "builder_not_allowed"},
		{name: "v0.2 of another branch", do: func(b *bench) { b.provenance02("https://builds.example/desk", "refs/heads/x", "{}") }, want: prov + "source_not_allowed"},
		{name: "v0.2 with a parameter of unknown meaning", do: func(b *bench) { b.provenance02("https://builds.example/desk", "refs/tags/v1.0.0", `{"flags":"-evil"}`) }, want: prov + "external_parameter_unknown"},
		{name: "v0.2 with a material that is not its source", do: func(b *bench) {
			b.provenance02("https://builds.example/desk", "refs/tags/v1.0.0", `{}`, "beef")
		}, want: prov + "source_disagrees"},
	}
}

// provenance02 writes SLSA provenance v0.2.
func (b *bench) provenance02(builder, ref, parameters string, material ...string) {
	digest := "c0ffee"
	for _, m := range material {
		digest = m
	}
	b.write("provenance", b.sign("build", b.statement(admission.PredicateProvenance02, `{"builder": {"id": "`+builder+`"}, "buildType": "x",
	 "invocation": {"configSource": {"uri": "git+https://git.example/desk@`+ref+`", "digest": {"sha1": "c0ffee"}}, "parameters": `+parameters+`},
	 "metadata": {"buildFinishedOn": "`+b.stamp(-24)+`"}, "materials": [{"uri": "git+https://git.example/desk", "digest": {"sha1": "`+digest+`"}}]}`)))
}

func sbomAttacks() []attack {
	const sbom = "evidence.sbom."
	at := func(name, from, to, code string, also ...string) attack {
		return attack{name: name, do: bent("sbom", "build", from, to), want: sbom + code, also: also}
	}
	return []attack{
		at("bill of another artifact", `"checksumValue": "`+genuineHex(), `"checksumValue": "`+foreignHex(), "artifact_not_named"),
		at("bill without components", `,
	  {"SPDXID": "SPDXRef-lib", "name": "lib", "licenseConcluded": "MIT OR AGPL-3.0-only"}`, "", "empty"),
		at("denied licence", "MIT OR AGPL-3.0-only", "MIT AND AGPL-3.0-only", "licence_not_allowed"),
		at("licence not stated", "MIT OR AGPL-3.0-only", "NOASSERTION", "licence_unknown"),
		at("licence expression that does not parse", "MIT OR AGPL-3.0-only", "MIT OR (", "licence_not_allowed"),
		at("old bill format", "SPDX-2.3", "SPDX-2.2", "format", "evidence.vulnerability.sbom_mismatch"),
		{name: "components hidden inside others", do: func(b *bench) {
			b.write("sbom", b.sign("build", b.statement(admission.PredicateCycloneDX, `{"bomFormat": "CycloneDX", "specVersion": "1.5",
			 "metadata": {"timestamp": "`+b.stamp(-24)+`", "component": {"name": "desk", "hashes": [{"alg": "SHA-256", "content": "`+b.artifact.Hex()+`"}]}},
			 "components": [{"name": "lib", "licenses": [{"license": {"id": "MIT"}}], "components": [{"name": "hidden"}]}]}`)))
		}, want: sbom + "nested_components"},
	}
}
