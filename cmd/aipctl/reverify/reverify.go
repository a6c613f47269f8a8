// Package reverify is aipctl trust reverify: what was admitted, decided once more.
//
// It answers two questions. By default: would it still be admitted, under the policy,
// the revocation list and the time of today? With --quarantine what would not is taken
// out of service. With --offline: is what was decided then what the stored package,
// trust revision and revocation list give (G35)? The answer to the second never
// changes, whatever is applied later; with --at the question is moved to another time.
//
// It does not own the rules: package admission does.
package reverify

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/release"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/sigstore"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Options is one reverification.
type Options struct {
	App        *app.App
	Versions   []string // ids; none means all
	Quarantine bool
	Offline    bool
	At         string
	From       string // directory that release export wrote
	at         time.Time
}

// Command makes aipctl trust reverify.
func Command(a *app.App) *cobra.Command {
	o := &Options{App: a}
	cmd := &cobra.Command{
		Use: "reverify [VERSION…]", Short: "Decide about admitted versions once more",
		Long: "Holds every admitted version that is not revoked against the trust policy, the revocation list and the time of today,\n" +
			"and shows all findings. Ends with exit code 1 when there are any. --quarantine takes versions with findings out of service.\n" +
			"--offline repeats the decisions as they were made, from what was stored, and compares the reports byte for byte;\n" +
			"with --at TIME under the trust revision and revocation list that were in force at that time. --from DIR reads what\n" +
			"release export wrote, and needs no registry.",
		Example: "  aipctl trust reverify\n  aipctl trust reverify --quarantine --reason \"build key lost\"\n" +
			"  aipctl trust reverify --offline --at 2026-06-01T12:00:00Z -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Versions = args
			return o.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Quarantine, "quarantine", false, "quarantine the active and deprecated versions that have findings")
	f.BoolVar(&o.Offline, "offline", false, "repeat the stored decisions instead of judging by today's policy")
	f.StringVar(&o.At, "at", "", "with --offline: decide as of this `time`, RFC 3339")
	f.StringVar(&o.From, "from", "", "with --offline: `directory` that release export wrote")
	return cmd
}

// Result is one version's answer.
type Result struct {
	Version       fleet.VersionID     `json:"version_id"`
	PackageDigest fleet.Digest        `json:"package_digest"`
	Outcome       string              `json:"outcome"` // passes, refused; offline also: repeats, differs
	Quarantined   bool                `json:"quarantined,omitempty"`
	Status        fleet.VersionStatus `json:"status,omitempty"` // not with --offline
	Findings      []admission.Finding `json:"findings"`
	Report        admission.Report    `json:"report"`
}

// Run decides and prints.
func (o *Options) Run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.From != "" {
		return o.exported()
	}
	access := app.ReadOnly
	if o.Quarantine {
		access = app.Control
	}
	reg, err := o.App.OpenRegistry(ctx, access)
	if err != nil {
		return err
	}
	defer reg.Close()
	shelf, err := read(ctx, reg)
	if err != nil {
		return err
	}
	if o.Offline {
		return o.offline(ctx, reg, shelf)
	}
	return o.today(ctx, reg, shelf)
}

func (o *Options) check() error {
	for _, id := range o.Versions {
		if _, err := fleet.ParseVersionID(id); err != nil {
			return err
		}
	}
	switch {
	case o.Offline && o.Quarantine:
		return app.Usagef("usage.flag", "--offline looks at what was, and --quarantine acts on what is").Advise("use one of them")
	case !o.Offline && (o.At != "" || o.From != ""):
		return app.Usagef("usage.flag", "--at and --from go with --offline")
	case o.At == "":
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, o.At)
	if err != nil {
		return app.Usagef("usage.flag", "--at is not a time in RFC 3339").Caused(err)
	}
	o.at = at.UTC()
	return nil
}

func evaluator() admission.Evaluator { return admission.Evaluator{Bundles: sigstore.Verifier{}} }

// today holds every admitted version against what is in force now.
func (o *Options) today(ctx context.Context, reg *app.Registry, s *shelf) error {
	policy, trust, err := s.policyAt(time.Time{})
	if err != nil {
		return err
	}
	var results []Result
	for _, a := range s.admissions {
		version := s.versions[a.Version]
		if !o.asked(a.Version) || version.Status == fleet.VersionRevoked || version.ID.IsZero() {
			continue
		}
		r, err := o.decide(ctx, reg, s, a, func(q admission.Request) admission.Request {
			return q.Under(policy, trust, s.listAt(time.Time{}), o.App.Now())
		})
		if err != nil {
			return err
		}
		r.Status = version.Status
		results = append(results, r)
	}
	if o.Quarantine {
		if err := o.quarantine(ctx, reg, results); err != nil {
			return err
		}
	}
	return o.finish(results, s.revision)
}

// decide makes one decision again under what change says.
func (o *Options) decide(ctx context.Context, reg registry.Reader, s *shelf, a registry.Admission, change func(admission.Request) admission.Request) (Result, error) {
	stored, err := s.stored(ctx, reg, a)
	if err != nil {
		return Result{}, err
	}
	request, err := stored.Again()
	if err != nil {
		return Result{}, err
	}
	_, report := evaluator().Judge(change(request))
	return resultOf(a, report), nil
}

func resultOf(a registry.Admission, report admission.Report) Result {
	r := Result{Version: a.Version, PackageDigest: a.PackageDigest, Outcome: "passes", Findings: report.Findings, Report: report}
	if len(report.Findings) > 0 {
		r.Outcome = "refused"
	}
	return r
}

// offline repeats decisions as they were made, or asks the same at another time.
func (o *Options) offline(ctx context.Context, reg registry.Reader, s *shelf) error {
	var results []Result
	for _, a := range s.admissions {
		if !o.asked(a.Version) || !o.at.IsZero() && a.EvaluatedAt.After(o.at) {
			continue
		}
		r, err := o.repeat(ctx, reg, s, a)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	return o.finish(results, 0)
}

func (o *Options) repeat(ctx context.Context, reg registry.Reader, s *shelf, a registry.Admission) (Result, error) {
	if !o.at.IsZero() {
		policy, trust, err := s.policyAt(o.at)
		if err != nil {
			return Result{}, err
		}
		return o.decide(ctx, reg, s, a, func(q admission.Request) admission.Request {
			return q.Under(policy, trust, s.listAt(o.at), o.at)
		})
	}
	stored, err := s.stored(ctx, reg, a)
	if err != nil {
		return Result{}, err
	}
	return repeated(a, stored)
}

func repeated(a registry.Admission, stored admission.Stored) (Result, error) {
	report, same, err := evaluator().Repeat(stored)
	if err != nil {
		return Result{}, err
	}
	r := resultOf(a, report)
	if r.Outcome = "repeats"; !same {
		r.Outcome = "differs"
	}
	return r, nil
}

func (o *Options) asked(id fleet.VersionID) bool {
	for _, v := range o.Versions {
		if v == id.String() {
			return true
		}
	}
	return len(o.Versions) == 0
}

// finish prints, and ends with an error when something is not as it should be.
func (o *Options) finish(results []Result, revision uint64) error {
	if len(results) < len(o.Versions) {
		return fleet.Errorf(fleet.NotFound, "reverify.version", "not every named version was admitted then").Advise("aipctl get admissions")
	}
	if err := o.print(results, revision); err != nil {
		return err
	}
	for _, r := range results {
		switch {
		case r.Outcome == "differs":
			return fleet.Errorf(fleet.NotAdmitted, "reverify.differs", "the decision about %s does not repeat", r.Version).
				Because("evaluator %s gives another report than the stored one", admission.EvaluatorVersion).Advise("compare both: aipctl describe admission %s", r.Version)
		case r.Outcome == "refused" && !r.Quarantined && o.at.IsZero():
			return admission.Refusal(r.Findings)
		}
	}
	return nil
}

func (o *Options) print(results []Result, revision uint64) error {
	return o.App.Print(app.View{
		Kind: "Reverification", Revision: revision, Items: app.Items(results),
		Name:  func(item any) string { r, _ := item.(Result); return r.Version.String() },
		Table: func(bool) app.Table { return table(results) },
		Note:  note(results),
	})
}

func table(results []Result) app.Table {
	t := app.Table{Header: []string{"VERSION", "STATUS", "OUTCOME", "TRUST", "REVOCATIONS", "FINDING", "TO SATISFY"}}
	for _, r := range results {
		outcome := r.Outcome
		if r.Quarantined {
			outcome += ", quarantined"
		}
		row := []string{r.Version.String(), string(r.Status), outcome, fmt.Sprint(r.Report.TrustRevision), fmt.Sprint(r.Report.Revocations)}
		if len(r.Findings) == 0 {
			t.Rows = append(t.Rows, append(row, "", ""))
		}
		for i, f := range r.Findings {
			if i > 0 {
				row = []string{"", "", "", "", ""}
			}
			t.Rows = append(t.Rows, append(row, f.Code, f.Satisfy))
		}
	}
	return t
}

func note(results []Result) string {
	bad := 0
	for _, r := range results {
		if len(r.Findings) > 0 || r.Outcome == "differs" {
			bad++
		}
	}
	return fmt.Sprintf("%s, %d with findings", app.Plural(len(results), "version"), bad)
}

// exported repeats a decision from a directory, without a registry.
func (o *Options) exported() error {
	if !o.at.IsZero() || len(o.Versions) > 0 {
		return app.Usagef("usage.flag", "--from holds one decision, with what it was made from").Advise("leave out --at and versions")
	}
	admitted, stored, err := release.ReadExport(o.From)
	if err != nil {
		return err
	}
	r, err := repeated(admitted, stored)
	if err != nil {
		return err
	}
	return o.finish([]Result{r}, 0)
}
