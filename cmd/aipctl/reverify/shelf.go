package reverify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/publish"
	"github.com/aipfleet/aipfleet/cmd/aipctl/revocation"
	"github.com/aipfleet/aipfleet/cmd/aipctl/trust"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// shelf is everything that decisions were made from, but for the packages.
type shelf struct {
	admissions []registry.Admission
	versions   map[fleet.VersionID]fleet.ConnectorVersion
	trust      []registry.TrustRevision
	lists      []registry.RevocationList
	policies   map[uint64]*admission.Policy
	revision   uint64
}

func read(ctx context.Context, reader registry.Reader) (*shelf, error) {
	s := &shelf{versions: map[fleet.VersionID]fleet.ConnectorVersion{}, policies: map[uint64]*admission.Policy{}}
	admitted, err := publish.ReadAll(ctx, reader, registry.Selection{Noun: registry.Admissions})
	if err != nil {
		return nil, err
	}
	s.admissions, s.revision = admitted.Admissions, admitted.Revision
	versions, err := publish.ReadAll(ctx, reader, registry.Selection{Noun: registry.Versions})
	if err != nil {
		return nil, err
	}
	for _, v := range versions.Versions {
		s.versions[v.ID] = v
	}
	if s.trust, _, err = trust.History(ctx, reader); err != nil {
		return nil, err
	}
	s.lists, _, err = revocation.History(ctx, reader)
	return s, err
}

// policy is a numbered trust revision.
func (s *shelf) policy(number uint64) (*admission.Policy, error) {
	if p := s.policies[number]; p != nil {
		return p, nil
	}
	for _, t := range s.trust {
		if t.Number == number {
			p, err := admission.ParsePolicy(t.Document)
			s.policies[number] = p
			return p, err
		}
	}
	return nil, fleet.Errorf(fleet.NotFound, "trust.revision", "there is no trust revision %d", number).Advise("aipctl trust history")
}

// policyAt is the trust revision in force at a time; the zero time is now.
func (s *shelf) policyAt(at time.Time) (*admission.Policy, uint64, error) {
	var number uint64
	for _, t := range s.trust {
		if at.IsZero() || !t.AppliedAt.After(at) {
			number = max(number, t.Number)
		}
	}
	if number == 0 {
		return nil, 0, fleet.Errorf(fleet.NotFound, "trust.none", "no trust policy was in force then").Advise("aipctl trust history")
	}
	p, err := s.policy(number)
	return p, number, err
}

// listAt is the revocation list in force at a time; the zero time is now.
func (s *shelf) listAt(at time.Time) *admission.RevocationList {
	var newest *admission.RevocationList
	for _, l := range s.lists {
		if at.IsZero() || !l.AppliedAt.After(at) {
			newest = admission.RevocationsOf(l)
		}
	}
	return newest
}

// stored is a decision with what it was made from.
func (s *shelf) stored(ctx context.Context, reader registry.Reader, a registry.Admission) (admission.Stored, error) {
	archive, err := reader.Package(ctx, a.PackageDigest)
	if err != nil {
		return admission.Stored{}, err
	}
	policy, err := s.policy(a.TrustRevision)
	if err != nil {
		return admission.Stored{}, err
	}
	stored := admission.Stored{Archive: archive, Report: a.Findings, Policy: policy}
	if a.RevocationList == 0 {
		return stored, nil
	}
	i := slices.IndexFunc(s.lists, func(l registry.RevocationList) bool { return l.Number == a.RevocationList })
	if i < 0 {
		return stored, fleet.Errorf(fleet.NotFound, "revocation.list", "there is no revocation list %d", a.RevocationList).Advise("aipctl get revocations")
	}
	stored.Revocations = admission.RevocationsOf(s.lists[i])
	return stored, nil
}

// quarantine takes versions with findings out of service, each as one journaled move.
func (o *Options) quarantine(ctx context.Context, reg *app.Registry, results []Result) error {
	var lines []string
	for i, r := range results {
		results[i].Quarantined = len(r.Findings) > 0 && r.Status == fleet.VersionQuarantined
		if moves(r) {
			lines = append(lines, fmt.Sprintf("%s goes from %s to quarantined: %s", r.Version, r.Status, r.Findings[0].Code))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	if o.App.Reason == "" {
		return app.Usagef("usage.reason", "--quarantine needs --reason").Because("every move of a version is journaled with its reason")
	}
	if err := o.App.Confirm(app.ConfirmYes, fmt.Sprintf("%s to quarantine:\n%s", app.Plural(len(lines), "version"), joined(lines)), "quarantine"); err != nil {
		return err
	}
	for i := range results {
		r := &results[i]
		if !moves(*r) {
			continue
		}
		_, err := reg.Transition(ctx, registry.VersionTransition{
			Version: r.Version, To: fleet.VersionQuarantined, Actor: o.App.Actor(), Reason: o.App.Reason + ": " + r.Findings[0].Code,
		})
		if err != nil {
			return err
		}
		r.Quarantined, r.Status = true, fleet.VersionQuarantined
	}
	return nil
}

// moves reports whether a result takes its version out of service.
func moves(r Result) bool { return len(r.Findings) > 0 && r.Status.Routable() }

func joined(lines []string) string {
	text := ""
	for _, l := range lines {
		text += "  " + l + "\n"
	}
	return text
}
