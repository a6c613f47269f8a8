package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// PredicateTestResult is in-toto's test result, version 0.1.
const PredicateTestResult = "https://in-toto.io/attestation/test-result/v0.1"

// ConformanceRunner names the runner of release conform in its results.
const ConformanceRunner = "aipfleet-conformance"

// TestResult is the predicate of a conformance run.
type TestResult struct {
	Result        string       `json:"result"` // PASSED, WARNED, FAILED
	Configuration []TestConfig `json:"configuration"`
	URL           string       `json:"url,omitempty"`
	PassedTests   []string     `json:"passedTests,omitempty"`
	WarnedTests   []string     `json:"warnedTests,omitempty"`
	FailedTests   []string     `json:"failedTests,omitempty"`
}

// TestConfig names what ran, and with what.
type TestConfig struct {
	Name        string            `json:"name,omitempty"`
	URI         string            `json:"uri,omitempty"`
	Digest      map[string]string `json:"digest,omitempty"`
	Annotations TestAnnotations   `json:"annotations,omitzero"`
}

// TestAnnotations are the runner's own words.
type TestAnnotations struct {
	FinishedOn time.Time `json:"finishedOn,omitzero"`
	Version    string    `json:"version,omitempty"`
}

// ConformanceRule is the rule of the slot conformance.
type ConformanceRule struct {
	SlotRule
	Required []string `json:"required"`          // scenarios that must have passed
	Runners  []string `json:"runners,omitempty"` // names of runners; default: release conform's
}

func (p *Policy) checkConformance() error {
	rule := p.doc.Slots.Conformance
	if rule == nil {
		return nil
	}
	problems := []error{wrong(len(rule.Required) == 0 || len(rule.Required) > 256, "slots.conformance.required", "it needs 1..256 scenarios")}
	for i, name := range rule.Required {
		problems = append(problems, text(fmt.Sprintf("slots.conformance.required[%d]", i), name, 256))
	}
	return errors.Join(problems...)
}

func (r ConformanceRule) runners() []string {
	if len(r.Runners) == 0 {
		return []string{ConformanceRunner}
	}
	return r.Runners
}

// conformanceSubjects: what ran is the artifact, and it was held to the manifest.
func (e *evaluation) conformanceSubjects(d *document) []expected {
	return []expected{e.artifactSubject(d), {what: "the manifest", sha256: e.pkg.ManifestDigest().Hex()}}
}

// evaluateConformance computes the result from the tests, whatever the document
// calls it.
func (e *evaluation) evaluateConformance(d document) {
	var r TestResult
	if !e.decodePredicate(d, &r) {
		return
	}
	rule := *e.policy.doc.Slots.Conformance
	e.checkRunner(d, rule, r)
	if bad := slices.Concat(r.FailedTests, r.WarnedTests); len(bad) > 0 {
		e.at(&d, "failed", "predicate.failedTests", "correct the connector and run release conform again", "%d scenario(s) did not pass: %s", len(bad), some(bad))
	}
	if r.Result != "PASSED" {
		e.at(&d, "result", "predicate.result", "run release conform again", "the result is %q", r.Result)
	}
	var missing []string
	for _, name := range rule.Required {
		if !slices.Contains(r.PassedTests, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		e.at(&d, "scenario_missing", "predicate.passedTests", "run the scenarios that the trust policy requires", "%d required scenario(s) did not pass: %s", len(missing), some(missing))
	}
	e.stated(d, "subject[1]", ManifestFile, e.pkg.ManifestDigest())
}

func (e *evaluation) checkRunner(d document, rule ConformanceRule, r TestResult) {
	var finished time.Time
	known := false
	for _, c := range r.Configuration {
		if slices.Contains(rule.runners(), c.Name) {
			known, finished = true, c.Annotations.FinishedOn
		}
	}
	if !known {
		e.at(&d, "runner_not_allowed", "predicate.configuration", "run one of: "+strings.Join(rule.runners(), ", "), "it was not run by a runner of the trust policy")
	}
	e.checkAge(d, "predicate.configuration", finished)
}
