package admission_test

import (
	"strings"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// found is a grype report with one finding.
func found(id, severity string) string {
	return strings.Replace(strings.Replace(grypeReport, "GHSA-1", id, 1), "Low", severity, 1)
}

func (b *bench) scanned(report string) {
	b.write("vulnerability", b.sign("scan", b.statement(admission.PredicateScan, b.scan(report))))
}

// vex adds an OpenVEX document to the scan.
func (b *bench) vex(signer, statement string) {
	b.scanned(found("GHSA-1", "Critical"))
	b.write("vulnerability.2", b.sign(signer, b.statement(admission.PredicateVEX,
		`{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "x", "author": "a", "timestamp": "`+b.stamp(-1)+`", "version": 1, "statements": [`+statement+`]}`)))
}

// answer is an OpenVEX statement about the desk.
func answer(name, status, more string) string {
	return `{"vulnerability": {"name": "` + name + `"}, "products": [{"@id": "desk", "hashes": {"sha-256": "` + genuineHex() + `"}}], "status": "` + status + `"` + more + `}`
}

const because = `, "justification": "vulnerable_code_not_present"`

// vulns is an in-toto vulnerability predicate about the bill.
func (b *bench) vulns(subject, result string) {
	statement := b.statement(admission.PredicateVulns, `{"scanner": {"uri": "pkg:scanner", "version": "1", "db": {"uri": "x"}, "result": `+result+`},
	 "metadata": {"scanStartedOn": "`+b.stamp(-2)+`", "scanFinishedOn": "`+b.stamp(-2)+`"}}`)
	b.write("vulnerability", b.sign("scan", strings.Replace(statement, b.artifact.Hex(), subject, 1)))
}

func vulnerabilityAttacks() []attack {
	const vuln = "evidence.vulnerability."
	return []attack{
		{name: "severe finding", do: func(b *bench) { b.scanned(found("GHSA-1", "High")) }, want: vuln + "severity"},
		{name: "severe finding of trivy", do: func(b *bench) {
			b.scanned(`{"SchemaVersion": 2, "Results": [{"Vulnerabilities": [{"VulnerabilityID": "CVE-1", "PkgName": "lib", "Severity": "CRITICAL"}]}]}`)
		}, want: vuln + "severity"},
		{name: "severe finding of osv", do: func(b *bench) {
			b.scanned(`{"results": [{"packages": [{"package": {"name": "lib", "version": "1"}, "vulnerabilities": [{"id": "GO-1"}], "groups": [{"ids": ["GO-1"], "max_severity": "9.8"}]}]}]}`)
		}, want: vuln + "severity"},
		{name: "severe finding by its score", do: func(b *bench) {
			b.vulns(b.sbomDigest().Hex(), `[{"id": "CVE-1", "severity": [{"method": "nvd", "score": "2.0"}, {"method": "cvss_score", "score": "7.5"}]}]`)
		}, want: vuln + "severity"},
		{name: "finding of unknown severity", do: func(b *bench) { b.scanned(found("GHSA-1", "Unknown")) }, want: vuln + "severity_unknown"},
		{name: "finding with a vector in place of a score", do: func(b *bench) {
			b.vulns(b.sbomDigest().Hex(), `[{"id": "CVE-1", "severity": [{"method": "cvss", "score": "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"}]}]`)
		}, want: vuln + "severity_unknown"},
		{name: "scan of another bill", do: func(b *bench) {
			bent("vulnerability", "scan", b.sbomDigest().Hex(), foreignHex())(b)
		}, want: vuln + "sbom_mismatch"},
		{name: "in-toto scan of another bill", do: func(b *bench) { b.vulns(foreignHex(), `[]`) }, want: vuln + "subject_mismatch"},
		{name: "in-toto scan of the artifact and no bill", do: func(b *bench) { b.vulns(genuineHex(), `[]`) }, want: vuln + "subject_mismatch"},
		{name: "scan without a list of results", do: func(b *bench) { b.vulns(b.sbomDigest().Hex(), `null`) }, want: vuln + "report_malformed"},
		{name: "stale scan", do: func(b *bench) { bent("vulnerability", "scan", b.stamp(-2), b.stamp(-200))(b) }, want: vuln + "too_old"},
		{name: "scan without a time", do: func(b *bench) { bent("vulnerability", "scan", "scanned_at", "seen_at")(b) }, want: vuln + "age_unknown"},
		{name: "scan by an unknown scanner", do: func(b *bench) { bent("vulnerability", "scan", `"format": "grype"`, `"format": "mine"`)(b) }, want: vuln + "format"},
		{name: "report of another scanner", do: func(b *bench) { bent("vulnerability", "scan", `"format": "grype"`, `"format": "trivy"`)(b) }, want: vuln + "report_malformed"},
		{name: "report with its matches left out", do: func(b *bench) { bent("vulnerability", "scan", `"matches"`, `"marches"`)(b) }, want: vuln + "report_malformed"},
		{name: "answer by the scanner itself", do: func(b *bench) { b.vex("scan", answer("CVE-2026-1", "not_affected", because)) }, want: vuln + "signer_not_allowed"},
		{name: "answer without a reason", do: func(b *bench) { b.vex("vex", answer("CVE-2026-1", "not_affected", "")) }, want: vuln + "severity"},
		{name: "answer that investigates", do: func(b *bench) { b.vex("vex", answer("CVE-2026-1", "under_investigation", because)) }, want: vuln + "severity"},
		{name: "answer to another finding", do: func(b *bench) { b.vex("vex", answer("CVE-2026-2", "not_affected", because)) }, want: vuln + "severity"},
		{name: "answer for another product", do: func(b *bench) {
			b.vex("vex", strings.Replace(answer("CVE-2026-1", "not_affected", because), genuineHex(), foreignHex(), 1))
		}, want: vuln + "severity"},
		{name: "answer for another component", do: func(b *bench) {
			b.vex("vex", strings.Replace(answer("CVE-2026-1", "not_affected", because), `"hashes"`, `"subcomponents": [{"@id": "pkg:golang/other@1.0"}], "hashes"`, 1))
		}, want: vuln + "severity"},
		{name: "answer that is no OpenVEX", do: func(b *bench) {
			b.vex("vex", answer("CVE-2026-1", "not_affected", because))
			statement := b.statement(admission.PredicateVEX, `{"@context": "https://vex.example", "statements": []}`)
			b.write("vulnerability.2", b.sign("vex", statement))
			b.scanned(grypeReport)
		}, want: vuln + "vex_format"},
		{name: "answers and no scan", do: func(b *bench) {
			b.vex("vex", answer("CVE-2026-1", "not_affected", because))
			b.remove("vulnerability")
		}, want: vuln + "count"},
	}
}

func conformanceAttacks() []attack {
	const conf = "evidence.conformance."
	at := func(name, from, to, code string, also ...string) attack {
		return attack{name: name, do: bent("conformance", "runner", from, to), want: conf + code, also: also}
	}
	return []attack{
		at("failed scenario called passed", `"passedTests"`, `"failedTests": ["drains"], "passedTests"`, "failed"),
		at("warned scenario", `"passedTests"`, `"warnedTests": ["drains"], "passedTests"`, "failed"),
		at("failed result", "PASSED", "FAILED", "result"),
		at("required scenario left out", `"repeats", `, ``, "scenario_missing"),
		at("runner of nobody", admission.ConformanceRunner, "my-runner", "runner_not_allowed", conf+"age_unknown"),
		{name: "old run", do: func(b *bench) { b.rule("conformance")["max_age"] = "1h" }, want: conf + "too_old"},
		{name: "run against another manifest", do: func(b *bench) {
			bent("conformance", "runner", b.pkg().ManifestDigest().Hex(), foreignHex())(b)
		}, want: conf + "subject_mismatch"},
		{name: "run that names no manifest", do: func(b *bench) {
			b.write("conformance", b.sign("runner", b.statement(admission.PredicateTestResult, b.tests())))
		}, want: conf + "subject_count"},
		{name: "run of another artifact", do: func(b *bench) { bent("conformance", "runner", genuineHex(), foreignHex())(b) }, want: conf + "subject_mismatch"},
	}
}

// approve signs a bent approval by each of the named.
func (b *bench) approve(from, to string, who ...string) {
	b.remove("approval")
	b.remove("approval.2")
	for i, id := range who {
		name := "approval"
		if i > 0 {
			name += "." + string(rune('1'+i))
		}
		text := b.genuine("approval")
		if from != "" {
			text = strings.Replace(text, from, to, 1)
		}
		b.write(name, b.sign(id, text))
	}
}

func approvalAttacks() []attack {
	const app = "evidence.approval."
	older := func(b *bench) {
		b.known.Versions = []fleet.ConnectorVersion{{Version: "1.1.0", ReleaseSequence: 7}}
	}
	return []attack{
		{name: "one approval of two", do: func(b *bench) { b.approve("", "", "alice") }, want: app + "count"},
		{name: "one approver twice", do: func(b *bench) { b.approve("", "", "alice", "alice") }, want: app + "signer_repeated"},
		{name: "approval by who may not", do: func(b *bench) { b.approve("", "", "alice", "runner") }, want: app + "signer_not_allowed"},
		{name: "approver who is the releaser", do: func(b *bench) {
			b.rule("approval")["signers"] = []any{"alice", "release"}
			b.approve("", "", "alice", "release")
		}, want: "evidence.signers_not_distinct"},
		{name: "approval of another package", do: func(b *bench) {
			b.approve(b.pkg().ApprovalDigest().Hex(), foreignHex(), "alice", "bob")
		}, want: app + "package_mismatch"},
		{name: "package changed after its approval", do: func(b *bench) {
			b.touched["approval"] = true
			b.fill("provenance")
		}, want: app + "package_mismatch"},
		{name: "approval under an earlier trust revision", do: func(b *bench) { b.approve(`"trust_revision":4`, `"trust_revision":3`, "alice", "bob") }, want: app + "policy_mismatch"},
		{name: "approval under another policy", do: func(b *bench) {
			b.approve(b.parsePolicy().Digest().Hex(), foreignHex(), "alice", "bob")
		}, want: app + "policy_mismatch"},
		{name: "old approval", do: func(b *bench) {
			b.rule("approval")["max_age"] = "30m"
		}, want: app + "too_old"},
		{name: "rollback that one of two approved", do: func(b *bench) {
			older(b)
			b.approve(`"approved_at"`, `"rollback_from":7,"approved_at"`, "alice")
			b.write("approval.2", b.sign("bob", b.genuine("approval")))
		}, want: "release.sequence_replayed"},
		{name: "rollback approved from another release", do: func(b *bench) {
			older(b)
			b.approve(`"approved_at"`, `"rollback_from":6,"approved_at"`, "alice", "bob")
		}, want: "release.sequence_replayed"},
	}
}
