package admission_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// passes changes a genuine package in a way that is no attack.
func passes(t *testing.T, make func(testing.TB) *bench, change func(*bench)) {
	t.Helper()
	b := make(t)
	change(b)
	if _, found := b.evaluate(); len(found) > 0 {
		t.Errorf("refused: %v", found)
	}
}

func TestSlot_G33_WhatAnswersAFinding(t *testing.T) {
	cases := map[string]string{
		"by its name":                  answer("GHSA-1", "not_affected", because),
		"by an alias":                  answer("CVE-2026-1", "not_affected", because),
		"by an alias of its own":       strings.Replace(answer("X-1", "not_affected", because), `"name": "X-1"`, `"name": "X-1", "aliases": ["CVE-2026-1"]`, 1),
		"fixed":                        answer("CVE-2026-1", "fixed", ""),
		"for the reason of its impact": answer("CVE-2026-1", "not_affected", `, "impact_statement": "never called"`),
		"by a bare name":               strings.Replace(answer("CVE-2026-1", "fixed", ""), `{"name": "CVE-2026-1"}`, `"CVE-2026-1"`, 1),
		"without products":             `{"vulnerability": {"name": "CVE-2026-1"}, "status": "fixed"}`,
		"for the component":            strings.Replace(answer("CVE-2026-1", "fixed", ""), `"hashes"`, `"subcomponents": [{"@id": "pkg:golang/lib@1.0"}], "hashes"`, 1),
	}
	for name, statement := range cases {
		t.Run(name, func(t *testing.T) { passes(t, newBench, func(b *bench) { b.vex("vex", statement) }) })
	}
}

func TestSlot_G33_ScansOfEveryForm(t *testing.T) {
	for name, change := range map[string]func(b *bench){
		"grype without findings": func(b *bench) { b.scanned(`{"descriptor": {"name": "grype"}, "matches": []}`) },
		"trivy": func(b *bench) {
			b.scanned(`{"SchemaVersion": 2, "Results": [{"Target": "x", "Vulnerabilities": [{"VulnerabilityID": "CVE-1", "PkgName": "lib", "Severity": "MEDIUM"}]}]}`)
		},
		"osv": func(b *bench) {
			b.scanned(`{"results": [{"packages": [{"package": {"name": "lib"}, "vulnerabilities": [{"id": "GO-1", "database_specific": {"severity": "LOW"}}]}]}]}`)
		},
		"in-toto": func(b *bench) {
			b.vulns(b.sbomDigest().Hex(), `[{"id": "CVE-1", "severity": [{"method": "nvd", "score": "6.9"}]}]`)
		},
		"in-toto without findings": func(b *bench) { b.vulns(b.sbomDigest().Hex(), `[]`) },
		"unknown severity accepted": func(b *bench) {
			b.rule("vulnerability")["unknown"] = "accept"
			b.scanned(found("GHSA-1", "Unknown"))
		},
		"two scanners": func(b *bench) {
			b.rule("vulnerability")["signers"], b.rule("vulnerability")["count"] = []any{"scan", "build"}, 2
			b.write("vulnerability.2", b.sign("build", b.genuine("vulnerability")))
		},
	} {
		t.Run(name, func(t *testing.T) { passes(t, newBench, change) })
	}
}

func TestSlot_G33_ProvenanceOfVersion02(t *testing.T) {
	passes(t, newBench, func(b *bench) { b.provenance02("https://builds.example/desk", "refs/tags/v1.0.0", "{}") })
}

func TestSlot_G33_ApprovedRollback(t *testing.T) {
	older := func(b *bench) {
		b.known.Versions = []fleet.ConnectorVersion{{Version: "1.1.0", ReleaseSequence: 7}}
		b.approve(`"approved_at"`, `"rollback_from":7,"approved_at"`, "alice", "bob")
	}
	passes(t, newBench, older)
	passes(t, newBench, func(b *bench) {
		older(b)
		b.approve(`"approved_at"`, `"rollback_from":7,"approved_at"`, "alice", "bob", "carol")
	})
}

func TestSlot_G33_ThreeApprovalsWhereTwoAreNeeded(t *testing.T) {
	passes(t, newBench, func(b *bench) { b.approve("", "", "alice", "bob", "carol") })
}

// TestSlot_G33_AKeyCountsWhenItWasSeen: a trusted timestamp says that the key signed
// while it was valid, so a signature outlives its key.
func TestSlot_G33_AKeyCountsWhenItWasSeen(t *testing.T) {
	expired := func(t testing.TB) *bench {
		b := newCloudBench(t)
		k := b.key("runner")
		k["root"], k["not_after"] = "cloud", b.at.Add(-time.Minute).Truncate(time.Second).Format(time.RFC3339)
		b.root()["log_entries"], b.root()["timestamps"] = 0, 1
		return b
	}
	stamp := func(b *bench, over func([]byte) []byte) {
		var bundle bundlepb.Bundle
		must(b.t, protojson.Unmarshal([]byte(b.sign("runner", b.genuine("conformance"))), &bundle))
		raw, err := b.cloud.virtual.TimestampResponse(over(bundle.GetDsseEnvelope().GetSignatures()[0].GetSig()))
		must(b.t, err)
		bundle.VerificationMaterial.TimestampVerificationData = &bundlepb.TimestampVerificationData{
			Rfc3161Timestamps: []*commonpb.RFC3161SignedTimestamp{{SignedTimestamp: raw}},
		}
		text, err := protojson.Marshal(&bundle)
		must(b.t, err)
		b.write("conformance", string(text))
	}
	passes(t, expired, func(b *bench) { stamp(b, func(sig []byte) []byte { return sig }) })
	for name, c := range map[string]struct {
		do   func(b *bench)
		want string
	}{
		"without a timestamp":              {func(b *bench) { b.fill("conformance") }, "evidence.conformance.timestamp_threshold"},
		"timestamp over another signature": {func(b *bench) { stamp(b, func([]byte) []byte { return []byte("x") }) }, "evidence.conformance.timestamp_invalid"},
		"seen after it expired": {func(b *bench) {
			b.key("runner")["not_after"] = b.at.Add(-time.Hour).Truncate(time.Second).Format(time.RFC3339)
			stamp(b, func(sig []byte) []byte { return sig })
		}, "evidence.conformance.key_expired"},
	} {
		t.Run(name, func(t *testing.T) {
			b := expired(t)
			c.do(b)
			if _, found := b.evaluate(); len(found) == 0 || found[0].Code != c.want {
				t.Errorf("findings %v, want %s", found, c.want)
			}
		})
	}
}

// TestSlot_G33_EveryFormOfABundle: keyed bundles of the versions 0.1 to 0.3 read the same.
func TestSlot_G33_EveryFormOfABundle(t *testing.T) {
	for _, media := range []string{"application/vnd.dev.sigstore.bundle+json;version=0.1", "application/vnd.dev.sigstore.bundle+json;version=0.2", "application/vnd.dev.sigstore.bundle+json;version=0.3"} {
		passes(t, newBench, func(b *bench) {
			b.replace("evidence/conformance.sigstore.json", "application/vnd.dev.sigstore.bundle.v0.3+json", media)
		})
	}
}

func TestScanFormat_G33_RecognisesItsOwn(t *testing.T) {
	for report, want := range map[string]string{grypeReport: "grype", `{"SchemaVersion": 2}`: "trivy", `{"results": []}`: "osv", `{}`: "", `[`: ""} {
		if got := admission.ScanFormat(json.RawMessage(report)); got != want {
			t.Errorf("%s is %q", report, got)
		}
	}
}
