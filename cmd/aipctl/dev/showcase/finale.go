package showcase

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Summary is what the demonstration leaves behind. Every number in it is counted at
// the end, from what was stored.
type Summary struct {
	StartedAt time.Time `json:"started_at"`
	Seconds   float64   `json:"seconds"`
	OK        bool      `json:"ok"`

	Actions         int            `json:"actions"`          // in the central store
	ActionStates    map[string]int `json:"action_states"`    // of them, by state
	Routes          int            `json:"routes"`           // in the registry
	Attempts        int            `json:"attempts"`         // of those routes
	Retried         int            `json:"retried"`          // routes with more than one attempt
	ProviderEffects int            `json:"provider_effects"` // in the provider's own stores
	EffectsByTenant map[string]int `json:"provider_effects_by_tenant"`
	ProviderCalls   int            `json:"provider_calls"` // that the hosts' journals know of
	Unknown         int            `json:"unknown"`        // attempts that ended without a definite answer
	Reconciled      int            `json:"reconciled"`     // of them, closed by evidence or by an operator
	Drained         int            `json:"drained"`        // drains that ended with nothing left
	Duplicates      int            `json:"duplicates"`     // effects beyond the first of an action
	Violations      int            `json:"audit_violations"`
	Processes       int            `json:"processes_left"`

	Checks       []Check         `json:"checks"`
	RouteInspect json.RawMessage `json:"route_inspect"` // aipctl route inspect of one action
}

// finale stops what uses the database, counts, and stops the database too.
func (s *show) finale(ctx context.Context) error {
	names := []string{localfleet.ProcessServe, localfleet.ProcessLifecycle}
	for _, h := range s.fleet.Hosts() {
		names = append(names, h.Replica)
	}
	slices.Reverse(names) // hosts first, so that they can give their leases back
	for _, name := range names {
		if err := s.fleet.Stop(ctx, name); err != nil {
			return err
		}
	}
	audit, err := s.fleet.Aipctl(ctx, "registry", "audit", "-o", "json")
	if err != nil {
		return err
	}
	s.check(audit.Exit == 0, "aipctl registry audit: every invariant over the stored data holds")
	s.record, err = s.read(ctx)
	if err != nil {
		return err
	}
	if err := s.fleet.Down(ctx); err != nil {
		return err
	}
	left := 0
	for _, row := range s.fleet.Status() {
		if row.State == localfleet.Running {
			left++
		}
	}
	s.left = left
	s.check(left == 0, "%d processes of the fleet are left", left)
	return nil
}

// conclude counts, judges the counts and writes the summary.
func (s *show) conclude(began time.Time) (Summary, error) {
	r := s.record
	sum := Summary{
		StartedAt: began.UTC(), Actions: len(r.actions), ActionStates: map[string]int{}, Routes: len(r.snapshot.Routes),
		ProviderEffects: len(r.effects), EffectsByTenant: r.effectsByTenant(), ProviderCalls: r.calls(),
		Unknown: r.unknown(), Reconciled: r.reconciled(), Drained: r.drained(), Duplicates: r.duplicates(),
		Violations: len(registry.Audit(r.snapshot)), Processes: s.left, RouteInspect: s.inspection,
	}
	for _, a := range r.actions {
		sum.ActionStates[a.State]++
	}
	for _, route := range r.snapshot.Routes {
		sum.Attempts += len(route.Attempts)
		if len(route.Attempts) > 1 {
			sum.Retried++
		}
	}
	s.judge(sum)
	sum.Checks, sum.OK = s.checks, !slices.ContainsFunc(s.checks, func(c Check) bool { return !c.OK })
	sum.Seconds = s.Now().Sub(began).Round(100 * time.Millisecond).Seconds()
	return sum, s.verdict(sum)
}

// judge compares the counts with each other.
func (s *show) judge(sum Summary) {
	s.check(sum.Actions >= 50, "%d actions in the central store (50 or more)", sum.Actions)
	s.check(sum.Routes == sum.Actions, "%d routes: one for each action", sum.Routes)
	s.check(sum.Unknown >= 1 && sum.Reconciled == sum.Unknown, "%d attempts ended without a definite answer, %d of them were closed by evidence or by a signed decision", sum.Unknown, sum.Reconciled)
	s.check(sum.Duplicates == 0, "%d effects happened twice", sum.Duplicates)
	s.check(sum.Drained >= 1, "%d drains ended with every attempt settled", sum.Drained)
	s.check(sum.Violations == 0, "%d invariants are broken in the snapshot that was counted", sum.Violations)
	for _, flaw := range s.record.flaws() {
		s.check(false, "%s", flaw)
	}
	wanted := s.record.completedEffects()
	s.check(sum.ProviderEffects == wanted, "%d effects in the provider's stores: exactly those of the %d completed actions that have one", sum.ProviderEffects, wanted)
}

func (s *show) verdict(sum Summary) error {
	if sum.OK {
		return nil
	}
	failed := 0
	first := ""
	for _, c := range sum.Checks {
		if !c.OK {
			failed++
			if first == "" {
				first = c.Detail
			}
		}
	}
	return fleet.Errorf(fleet.Internal, "demo.checks", "%d of %d checks failed", failed, len(sum.Checks)).Because("first: %s", first).
		Advise("look at the logs in %s", filepath.Join(s.Fleet.Dir, "logs"))
}
