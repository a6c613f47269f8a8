package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/dispatch"
	"github.com/aipfleet/aipfleet/pkg/fairness"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// movedOn is a store in which an action is taken over by another owner at the moment
// at which its turn has come.
type movedOn struct {
	action.Store
	stolen func(fleet.ActionID) bool
}

func (s movedOn) Get(ctx context.Context, tenant fleet.TenantID, id fleet.ActionID) (action.Record, error) {
	r, err := s.Store.Get(ctx, tenant, id)
	if err == nil && s.stolen(id) {
		r.Owner = "somebody else"
	}
	return r, err
}

// TestRun_G12_G31_APermitIsGivenBackWhenItIsNotWantedAnyMore: an action that was taken
// over while it waited keeps no place among those that run.
func TestRun_G12_G31_APermitIsGivenBackWhenItIsNotWantedAnyMore(t *testing.T) {
	r := newRig(t)
	release := make(chan struct{})
	r.product.set(func(ctx context.Context, c connector.Call) (connector.Result, error) {
		<-release
		return r.product.happen(c), nil
	})
	first, second := submission(newAction()), submission(newAction())
	scheduler := fairness.New(fairness.Config{Bounds: fairness.Bounds{InFlight: 1}, Now: time.Now})
	e, _ := r.engine("one", func(c *dispatch.Config) {
		c.Scheduler = scheduler
		c.Store = movedOn{c.Store, func(id fleet.ActionID) bool { return id == second.ID }}
	})
	for _, s := range []action.Submission{first, second} {
		if _, err := e.Submit(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	r.eventually("the second one waits", func() bool { return scheduler.Load().Queued == 1 })
	close(release)
	r.eventually("every permit is back", func() bool { return scheduler.Load() == (fairness.Load{}) })
	third := submission(newAction())
	r.want(r.submit(e, third), action.Completed)
	r.wantCalls(second.ID, 0)
}
