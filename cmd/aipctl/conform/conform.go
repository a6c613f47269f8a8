// Package conform is aipctl release conform: does the packed connector behave, under a
// real host, as its manifest says?
//
// It unpacks the artifact, starts it under the very host and adapter that run it in a
// fleet, and speaks to that host over HTTP in signed messages, as a gateway does. What
// passed is written as a signed in-toto test result into the package's conformance
// slot (G33). Nothing is looked at from inside: a scenario that needs a call takes it
// from the cases that the publisher gives.
//
// It does not own which scenarios a fleet requires: the trust policy says that.
package conform

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/release"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// runnerVersion names the scenarios; it grows when one of them asks for more.
const runnerVersion = "1"

// Options is one conformance run.
type Options struct {
	App     *app.App
	Package string
	Cases   string
	Key     string
	Args    []string
	Env     []string
	Secrets []string
	Timeout time.Duration
}

// Command makes aipctl release conform.
func Command(a *app.App) *cobra.Command {
	o := &Options{App: a}
	cmd := &cobra.Command{
		Use: "conform PKG --cases FILE", Short: "Run the packed connector under a real host, and attest what passed",
		Long: "Starts the artifact under a host in this process and plays every scenario against it. With --key the result is\n" +
			"signed into evidence/conformance.sigstore.json when all passed. Scenarios: " + strings.Join(Names(), ", ") + ",\n" +
			"and case:NAME for each case. A scenario that needs a call is left out without cases.\n" +
			"Cases have effects: run them against an account that is made for it.",
		Example: "  aipctl release conform dist/ticketdesk --cases conformance.yaml --env TICKETDESK_DIR=/tmp/desk --key keys/runner.key",
		Args:    app.ExactArgs(1, "a package directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Package = args[0]
			return o.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Cases, "cases", "", "`file` with calls to make, YAML or JSON")
	f.StringVar(&o.Key, "key", "", "private key `file` to sign the result with; none: only show it")
	f.StringArrayVar(&o.Args, "arg", nil, "argument for the connector; repeatable")
	f.StringArrayVar(&o.Env, "env", nil, "`K=V` for the connector; repeatable")
	f.StringArrayVar(&o.Secrets, "secret-file", nil, "`NAME=FILE`: environment variable with a credential out of a file; repeatable")
	f.DurationVar(&o.Timeout, "timeout", 2*time.Minute, "how long all scenarios together may take")
	return cmd
}

// Result is what conform tells.
type Result struct {
	Package  string    `json:"package"`
	Passed   []string  `json:"passed"`
	Failed   []Failure `json:"failed"`
	LeftOut  []string  `json:"left_out"` // nothing to play them with
	Evidence string    `json:"evidence,omitempty"`
	finished time.Time
	cases    fleet.Digest
}

// Failure is a scenario that did not pass.
type Failure struct {
	Scenario string `json:"scenario"`
	Why      string `json:"why"`
}

// Run plays and attests.
func (o *Options) Run(ctx context.Context) error {
	p, err := admission.OpenPackage(o.Package, admission.Limits{})
	if err != nil {
		return err
	}
	if err := p.Inside(); err != nil {
		return err
	}
	cases, digest, err := o.readCases(p)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	b, err := o.newBed(p)
	if err != nil {
		return err
	}
	defer b.close()
	result := Result{Package: o.Package, Passed: []string{}, Failed: []Failure{}, LeftOut: []string{}, cases: digest}
	b.play(ctx, cases, &result)
	result.finished = o.App.Now().UTC().Truncate(time.Second)
	if len(result.Failed) == 0 && o.Key != "" {
		result.Evidence = admission.EvidencePath(admission.SlotConformance)
	}
	if err := o.print(result); err != nil {
		return err
	}
	if len(result.Failed) > 0 {
		f := result.Failed[0]
		return fleet.Errorf(fleet.NotAdmitted, "conform.failed", "%d scenario(s) failed", len(result.Failed)).Because("%s: %s", f.Scenario, f.Why).
			Advise("correct the connector, pack it again, and run release conform again")
	}
	if o.Key == "" {
		return nil
	}
	return o.attest(result)
}

// attest signs the result. What attesting says about itself is not repeated on stdout.
func (o *Options) attest(r Result) error {
	config := []admission.TestConfig{{
		Name: admission.ConformanceRunner, Annotations: admission.TestAnnotations{FinishedOn: r.finished, Version: runnerVersion},
	}}
	if !r.cases.IsZero() {
		config = append(config, admission.TestConfig{Name: "cases", Digest: map[string]string{"sha256": r.cases.Hex()}})
	}
	return release.File(o.Package, o.Key, release.Attestation{
		Slot: admission.SlotConformance, PredicateType: admission.PredicateTestResult,
		Predicate: admission.TestResult{Result: "PASSED", Configuration: config, PassedTests: r.Passed},
	})
}

func (o *Options) print(r Result) error {
	t := app.Table{Header: []string{"SCENARIO", "RESULT", "WHY"}}
	for _, name := range r.Passed {
		t.Rows = append(t.Rows, []string{name, "passed", ""})
	}
	for _, f := range r.Failed {
		t.Rows = append(t.Rows, []string{f.Scenario, "failed", f.Why})
	}
	for _, name := range r.LeftOut {
		t.Rows = append(t.Rows, []string{name, "left out", "no case to play it with"})
	}
	return o.App.Print(app.View{
		Kind: "Conformance", Item: r, Name: func(any) string { return r.Package },
		Text: func() app.Page {
			page := app.Page{{Title: fmt.Sprintf("%s: %d passed, %d failed", r.Package, len(r.Passed), len(r.Failed)), Table: &t}}
			if r.Evidence != "" {
				page = append(page, app.Section{Lines: []string{"signed into " + r.Evidence}})
			}
			return page
		},
	})
}
