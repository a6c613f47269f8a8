package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Findings are the promises that were broken.
type Findings struct {
	Violations []string // of the audit, of results, of quiet
	Duplicates []string // actions that were called more than once
	Lost       []string // acknowledged actions that have no end
}

// None reports whether every promise was kept.
func (f Findings) None() bool { return len(f.Violations)+len(f.Duplicates)+len(f.Lost) == 0 }

// AwaitLeases waits until every replica may serve.
func (r *Rig) AwaitLeases(ctx context.Context) error {
	for {
		all, err := r.Registry.List(ctx, registry.Selection{Noun: registry.Replicas})
		waiting := 0
		for _, one := range all.Replicas {
			if one.Live.Status != fleet.ReplicaReady || !one.Live.Healthy || one.Live.Intent != fleet.IntentRun {
				waiting++
			}
		}
		if err == nil && waiting == 0 && len(all.Replicas) > 0 {
			return nil
		}
		if !pause(ctx, 50*time.Millisecond) {
			return fmt.Errorf("%d replicas do not serve: %w", waiting, ctx.Err())
		}
	}
}

// Heal ends every fault and starts what is down.
func (r *Rig) Heal(ctx context.Context) error {
	r.Data.Cut(NoCut, "")
	r.Leases.Cut(NoCut, "")
	r.Data.Release()
	r.Data.Stall(false)
	r.Data.Down(false)
	r.Leases.Down(false)
	for _, p := range r.Network {
		p.Delay(0)
		p.LoseAnswers(0)
		p.Catch("")
		p.Blackhole(false)
	}
	for _, d := range r.Daemons {
		d.Disarm()
		if err := d.StepClock(0); err != nil {
			return err
		}
	}
	if err := r.Fleet.Start(ctx, "postgres"); err != nil {
		return err
	}
	if err := r.StartAll(); err != nil {
		return err
	}
	return r.AwaitLeases(ctx)
}

// decideAfter is how long an uncertain action is left to reconciliation before the
// operator asks the provider.
const decideAfter = 2 * time.Second

// Settle heals the fleet and brings every order to its end, as its clients and an
// operator would: what did not start is submitted again, what nobody can tell is
// decided by what the provider shows. Then it checks every promise.
func (r *Rig) Settle(ctx context.Context, orders []*Order) Findings {
	var f Findings
	if err := r.Heal(ctx); err != nil {
		f.Violations = append(f.Violations, "the fleet does not come back: "+err.Error())
		return f
	}
	began := time.Now()
	for _, o := range orders {
		if !o.Acknowledged() {
			if err := r.Place(ctx, o); err != nil {
				f.Violations = append(f.Violations, err.Error())
				continue
			}
		}
		if err := r.finish(ctx, o, began); err != nil {
			f.Lost = append(f.Lost, err.Error())
		}
	}
	r.check(ctx, orders, &f)
	return f
}

// finish waits for one order's end.
func (r *Rig) finish(ctx context.Context, o *Order, began time.Time) error {
	for {
		v, err := r.Look(ctx, o)
		switch {
		case err != nil:
		case v.Final:
			return nil
		case v.State == action.Retryable:
			err = r.Place(ctx, o)
		case v.State == action.Uncertain && time.Since(began) > decideAfter:
			err = r.decide(ctx, o)
		}
		if !pause(ctx, 60*time.Millisecond) {
			return fmt.Errorf("%s stays %s (%+v): %v", o.ID(), v.State, v.Problem, err)
		}
	}
}

// decide is the operator's decision, by the command that operators use. An effect that
// is there is found by the host itself; it needs no decision.
func (r *Rig) decide(ctx context.Context, o *Order) error {
	effects, err := r.Effects(o)
	if err != nil || effects > 0 {
		return err
	}
	evidence := filepath.Join(r.dir, "evidence.txt")
	if err := os.WriteFile(evidence, []byte("the desk has no ticket of "+o.ID().String()+"\n"), 0o644); err != nil {
		return err
	}
	result, err := r.Fleet.Aipctl(ctx, "reconcile", "resolve", o.ID().String(), "--outcome", "did-not-happen",
		"--evidence", evidence, "--reason", "the desk was asked", "--yes")
	if err != nil {
		return err
	}
	o.decisions++
	return result.Failed(0)
}

// Effects counts the tickets of an order.
func (r *Rig) Effects(o *Order) (int, error) {
	all, err := desk.ReadEffects(r.Fleet.Place().Account(o.Tenant))
	count := 0
	for _, e := range all {
		if e.ActionID == o.ID().String() {
			count++
		}
	}
	return count, err
}

// Calls counts how often the provider was called for an order.
func (r *Rig) Calls(o *Order) (int, error) {
	all, err := desk.ReadCalls(r.Fleet.Place().Account(o.Tenant))
	count := 0
	for _, c := range all {
		if c.ActionID == o.ID().String() {
			count++
		}
	}
	return count, err
}

// check compares every order with the provider, waits for quiet, and audits.
func (r *Rig) check(ctx context.Context, orders []*Order, f *Findings) {
	for _, o := range orders {
		v, err := r.Look(ctx, o)
		calls, cerr := r.Calls(o)
		effects, eerr := r.Effects(o)
		switch {
		case err != nil || cerr != nil || eerr != nil:
			f.Violations = append(f.Violations, fmt.Sprintf("%s: %v %v %v", o.ID(), err, cerr, eerr))
		case calls > 1+o.decisions || effects > 1:
			f.Duplicates = append(f.Duplicates, fmt.Sprintf("%s: %d calls, %d effects", o.ID(), calls, effects))
		case v.State == action.Completed && effects == 0:
			f.Lost = append(f.Lost, fmt.Sprintf("%s is completed and has no effect", o.ID()))
		case v.State != action.Completed && effects > 0:
			f.Violations = append(f.Violations, fmt.Sprintf("%s is %s and has its effect", o.ID(), v.State))
		}
	}
	if err := r.AwaitQuiet(ctx); err != nil {
		f.Violations = append(f.Violations, err.Error())
	}
	snapshot, err := r.Registry.Snapshot(ctx)
	if err != nil {
		f.Violations = append(f.Violations, err.Error())
	}
	for _, v := range registry.Audit(snapshot) {
		f.Violations = append(f.Violations, fmt.Sprintf("audit: %s broken by %s: %s", v.Guarantee, v.Subject, v.What))
	}
}

// AwaitQuiet waits until nothing is reserved and nothing is in question (G04, G12, G38).
func (r *Rig) AwaitQuiet(ctx context.Context) error {
	for {
		unrest, err := r.unrest(ctx)
		if err == nil && unrest == "" {
			return nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("the fleet is not quiet: %s %w", unrest, errOr(err, ctx.Err()))
		}
	}
}

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

func (r *Rig) unrest(ctx context.Context) (string, error) {
	s, err := r.Registry.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	for _, c := range s.Counters {
		if c.Current != 0 {
			return fmt.Sprintf("counter %s %s is %d", c.Kind, c.Key, c.Current), nil
		}
	}
	for _, one := range s.Replicas {
		if one.Live.Active != 0 {
			return fmt.Sprintf("replica %s has %d active", one.ID, one.Live.Active), nil
		}
	}
	for _, u := range s.Reconciliations {
		if u.State != fleet.ReconcileResolved {
			return fmt.Sprintf("attempt %d of %s is %s", u.Fence, u.Action, u.State), nil
		}
	}
	return "", nil
}
