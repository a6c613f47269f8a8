package admission_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func TestEvaluate_G35_TheStoredArchiveDecidesTheSame(t *testing.T) {
	for name, make := range map[string]func(testing.TB) *bench{"keys": newBench, "certificates": newCloudBench} {
		t.Run(name, func(t *testing.T) {
			b := make(t)
			b.known.Type = &fleet.ConnectorType{ID: b.pkg().Release().Type.ID, Name: "desk", Owner: "desk-team", Enabled: true}
			b.known.Versions = []fleet.ConnectorVersion{{Version: "0.9.0", ReleaseSequence: 2}}
			b.revocations = b.list(5, registry.RevocationEntry{Kind: registry.RevokeSigner, Value: "stranger", Reason: "lost"})
			verified, found := b.evaluate()
			if len(found) > 0 {
				t.Fatal(found)
			}
			set, err := verified.ChangeSet("a", "r")
			must(t, err)
			stored, found := admission.ReadArchive(set.Admission.Package, admission.Limits{})
			if len(found) > 0 {
				t.Fatal(found)
			}
			var report admission.Report
			must(t, json.Unmarshal(set.Admission.Findings, &report))
			_, again := b.evaluator.Judge(admission.Request{
				Package: stored, Policy: b.parsePolicy(), TrustRevision: report.TrustRevision, Revocations: b.revocations,
				At: report.EvaluatedAt, Known: report.Known(stored.Release().Type.ID),
			})
			if string(again.JSON()) != string(set.Admission.Findings) {
				t.Errorf("two reports of one decision:\n%s\n%s", set.Admission.Findings, again.JSON())
			}
		})
	}
}

// TestEvaluate_G35_ARefusalIsReportedTheSameTwice: also a decision against is a
// function of its inputs.
func TestEvaluate_G35_ARefusalIsReportedTheSameTwice(t *testing.T) {
	b := newBench(t)
	b.remove("conformance")
	b.scanned(strings.Replace(grypeReport, "Low", "Critical", 1))
	b.settle()
	_, first := b.evaluator.Judge(b.request(b.pkg()))
	_, second := b.evaluator.Judge(b.request(b.pkg()))
	if string(first.JSON()) != string(second.JSON()) || len(first.Findings) == 0 || len(first.Documents) == 0 {
		t.Errorf("%s\n%s", first.JSON(), second.JSON())
	}
}

func TestEvaluate_G33_ReportsEveryFindingAtOnceInOneOrder(t *testing.T) {
	b := newBench(t)
	b.remove("sbom")
	b.touched["vulnerability"] = true
	b.replace("artifact/desk-mcp", "desk", "dusk")
	b.replace("manifest.json", `"adapter": "mcp"`, `"adapter": "shell"`)
	b.known.Versions = []fleet.ConnectorVersion{{Version: "1.0.0", ReleaseSequence: 7}}
	_, first := b.evaluate()
	_, second := b.evaluate()
	want := []string{
		"release.sequence_replayed", "release.version_taken",
		"evidence.signature.subject_mismatch", "evidence.provenance.subject_mismatch", "evidence.sbom.missing",
		"evidence.vulnerability.subject_mismatch", "evidence.conformance.subject_mismatch", "evidence.conformance.subject_mismatch",
		"evidence.approval.subject_mismatch", "evidence.approval.subject_mismatch",
		"manifest.unbound", "release.unbound", "manifest.adapter_unknown",
	}
	if got := codes(first); !slices.Equal(got, want) {
		t.Errorf("findings %v\nwant     %v", got, want)
	}
	if !slices.Equal(first, second) {
		t.Error("the same package gives findings in two orders")
	}
}

func TestEvaluate_G33_TheSamePackageAgainIsNoNews(t *testing.T) {
	b := newBench(t)
	verified, _ := b.evaluate()
	b.known.Versions = []fleet.ConnectorVersion{verified.Version()}
	again, found := b.evaluate()
	if len(found) > 0 || !again.AlreadyAdmitted() || verified.AlreadyAdmitted() {
		t.Errorf("again: %v, %v", again.AlreadyAdmitted(), found)
	}
}

func TestEvaluate_G33_ProvenanceCanBindWhatABareSignatureDoesNot(t *testing.T) {
	b := newBench(t)
	b.bare()
	made, err := json.Marshal(b.pkg().Byproducts())
	must(t, err)
	bound := strings.Replace(b.provenance(), `"metadata"`, `"byproducts": `+string(made)+`, "metadata"`, 1)
	b.write("provenance", b.sign("build", b.statement(admission.PredicateProvenance, bound)))
	if _, found := b.evaluate(); len(found) > 0 {
		t.Errorf("a bound package is refused: %v", found)
	}
	b.replace("manifest.json", `"name": "read"`, `"name": "look"`)
	if _, found := b.evaluate(); !slices.Contains(codes(found), "evidence.provenance.manifest_mismatch") {
		t.Errorf("a changed manifest gives %v", found)
	}
}

func TestEvaluate_G33_StatementV01WhereThePolicySaysSo(t *testing.T) {
	b := newBench(t)
	b.policy["statement_types"] = []any{admission.StatementV1, admission.StatementV01}
	bent("provenance", "build", "Statement/v1", "Statement/v0.1")(b)
	if _, found := b.evaluate(); len(found) > 0 {
		t.Errorf("refused: %v", found)
	}
}

func TestEvaluate_G33_CycloneDX(t *testing.T) {
	bom := func(b *bench, component string) string {
		return `{"bomFormat":"CycloneDX","specVersion":"1.6","metadata":{"timestamp":"` + b.stamp(-24) + `","component":{"type":"application","name":"desk",
		 "hashes":[{"alg":"SHA-256","content":"` + b.artifact.Hex() + `"}]}},"components":[` + component + `]}`
	}
	cases := map[string]struct{ component, want string }{
		"licensed":       {`{"name":"lib","licenses":[{"license":{"id":"MIT"}}]}`, ""},
		"denied":         {`{"name":"lib","licenses":[{"license":{"id":"MIT"}},{"license":{"id":"AGPL-3.0-only"}}]}`, "evidence.sbom.licence_not_allowed"},
		"unknown":        {`{"name":"lib"}`, "evidence.sbom.licence_unknown"},
		"nested":         {`{"name":"lib","licenses":[{"license":{"id":"MIT"}}],"components":[{"name":"inner"}]}`, "evidence.sbom.nested_components"},
		"none":           {``, "evidence.sbom.empty"},
		"expression":     {`{"name":"lib","licenses":[{"expression":"MIT OR AGPL-3.0-only"}]}`, ""},
		"not expression": {`{"name":"lib","licenses":[{"expression":"MIT OR"}]}`, "evidence.sbom.licence_not_allowed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("sbom", b.sign("build", b.statement(admission.PredicateCycloneDX, bom(b, c.component))))
			_, found := b.evaluate()
			if got := strings.Join(codes(found), " "); got != c.want {
				t.Errorf("findings %v, want %q", found, c.want)
			}
		})
	}
}

func TestEvaluate_G33_DeploymentIsOfThisRelease(t *testing.T) {
	b := newBench(t)
	deployment := "instances:\n  - {id: cinst_a, type_id: ctype_desk, tenant_id: acme, config_revision: 1, enabled: true}\n" +
		"bindings:\n  - {tenant_id: acme, capability_id: \"desk:open\", instance_id: cinst_a, policy_revision: 1, enabled: true}\n"
	must(t, os.WriteFile(filepath.Join(b.dir, "deployment.yaml"), []byte(deployment), 0o600))
	verified, found := b.evaluate()
	if len(found) > 0 {
		t.Fatal(found)
	}
	set, err := verified.ChangeSet("a", "r")
	must(t, err)
	if s := set.Instances[0].Serving; len(s) != 1 || s[0].Version.String() != "cver_desk1" || len(set.Bindings) != 1 {
		t.Errorf("deployment became %+v, %+v", set.Instances, set.Bindings)
	}
}

func TestPolicy_G33_RefusesWhatWouldWeakenIt(t *testing.T) {
	cases := map[string]func(b *bench){
		"identity of nobody's root": func(b *bench) {
			b.policy["identities"] = []any{object{"id": "x", "root": "none", "issuer": "https://i", "subject": "https://s/a"}}
		},
		"identity by a pattern":             func(b *bench) { b.identity("https://ci.example/*/release.yml") },
		"identity of a whole host":          func(b *bench) { b.identity("https://ci.example/*") },
		"identity of any mailbox":           func(b *bench) { b.identity("*@example.com") },
		"identity by a prefix of a mailbox": func(b *bench) { b.identity("release*") },
		"identity with the id of a key": func(b *bench) {
			b.identity("https://ci.example/a")
			b.policy["identities"].([]any)[0].(object)["id"] = "release"
		},
		"key of nobody's root": func(b *bench) { b.key("build")["root"] = "none" },
		"key for ever under max_validity": func(b *bench) {
			b.policy["max_validity"] = "100h"
		},
		"vulnerabilities without a bill":    func(b *bench) { delete(b.policy["slots"].(object), "sbom") },
		"no severity that refuses":          func(b *bench) { b.rule("vulnerability")["refuse"] = "none" },
		"answers by nobody known":           func(b *bench) { b.rule("vulnerability")["vex_signers"] = []any{"ghost"} },
		"conformance that requires nothing": func(b *bench) { b.rule("conformance")["required"] = []any{} },
		"more approvals than approvers":     func(b *bench) { b.rule("approval")["count"] = 4 },
		"sha1 as a subject digest":          func(b *bench) { b.rule("provenance")["subject_digests"] = []any{"sha1"} },
		"revocation by nobody":              func(b *bench) { b.policy["revocation"] = object{"signers": []any{}} },
		"no signature slot":                 func(b *bench) { delete(b.policy["slots"].(map[string]any), "signature") },
		"unknown member":                    func(b *bench) { b.policy["warn_only"] = true },
		"unknown slot":                      func(b *bench) { b.policy["slots"].(map[string]any)["hope"] = map[string]any{} },
		"slot without signers":              func(b *bench) { b.rule("sbom")["signers"] = []any{} },
		"signer without key":                func(b *bench) { b.rule("sbom")["signers"] = []any{"ghost"} },
		"pattern for repository": func(b *bench) {
			b.rule("provenance")["sources"].([]any)[0].(map[string]any)["repository"] = "https://git.example/*"
		},
		"ref of anything":             func(b *bench) { b.rule("provenance")["sources"].([]any)[0].(map[string]any)["ref"] = "*" },
		"pattern in the middle":       func(b *bench) { b.rule("provenance")["sources"].([]any)[0].(map[string]any)["ref"] = "refs/*/v1" },
		"no types":                    func(b *bench) { b.policy["types"] = []any{} },
		"group of one slot":           func(b *bench) { b.policy["distinct_signers"] = []any{[]any{"sbom"}} },
		"negative age":                func(b *bench) { b.rule("provenance")["max_age"] = "-1h" },
		"more documents than signers": func(b *bench) { b.rule("sbom")["count"] = 2 },
		"one key under two ids": func(b *bench) {
			b.policy["keys"] = append(b.policy["keys"].([]any), map[string]any{"id": "twin", "public_key": b.public["release"]})
		},
		"statement type of nobody": func(b *bench) { b.policy["statement_types"] = []any{"https://in-toto.io/Statement/v9"} },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			change(b)
			data, err := json.Marshal(b.policy)
			must(t, err)
			if _, err := admission.ParsePolicy(data); fleet.CodeOf(err) != "trust.policy" {
				t.Errorf("accepted, or refused otherwise: %v", err)
			}
		})
	}
}

// identity puts one into the policy, under a root that exists.
func (b *bench) identity(subject string) {
	b.policy["roots"] = []any{object{"id": "cloud", "trusted_root": object{}}}
	b.policy["identities"] = []any{object{"id": "x", "root": "cloud", "issuer": "https://i", "subject": subject}}
}

func TestLicence_G33_Expressions(t *testing.T) {
	allow := map[string]bool{
		"MIT": true, "Apache-2.0 WITH LLVM-exception": true, "(MIT OR GPL-3.0-only) AND BSD-3-Clause": true,
		"MIT AND GPL-3.0-only": false, "GPL-3.0-only OR LGPL-3.0-only": false, "GPL-2.0+": false,
		"MIT OR": false, "(MIT": false, "MIT BSD-3-Clause": false, "MIT) OR (MIT": false, "OR": false, strings.Repeat("(", 40) + "MIT": false,
	}
	for expression, want := range allow {
		b := newBench(t)
		b.rule("sbom")["licences"] = map[string]any{"allow": []any{"MIT", "Apache-2.0", "BSD-3-Clause"}}
		b.write("sbom", b.sign("build", b.statement(admission.PredicateSPDX, strings.Replace(b.sbom(), "MIT OR AGPL-3.0-only", expression, 1))))
		_, found := b.evaluate()
		if got := len(found) == 0; got != want {
			t.Errorf("%q: accepted %v, want %v (%v)", expression, got, want, found)
		}
	}
}

func TestPolicy_G33_TheExampleIsValid(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "examples", "ticketdesk", "policy.yaml"))
	must(t, err)
	b := newBench(t)
	text := string(data)
	for i, name := range []string{"PUBLISHER", "BUILDER", "SCANNER", "RUNNER", "ANN", "BOB"} {
		key := slices.Sorted(maps.Keys(b.public))[i]
		text = strings.Replace(text, "${"+name+"_PUBLIC_KEY}", strings.ReplaceAll(b.public[key], "\n", `\n`), 1)
	}
	policy, err := admission.ParsePolicy([]byte(text))
	must(t, err)
	if got := policy.Slots(); !slices.Equal(got, []string{"signature", "provenance", "sbom", "vulnerability", "conformance", "approval"}) {
		t.Errorf("slots %v", got)
	}
}
