package showcase

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// undecidable kills a host before the provider did anything: after "call started"
// the host cannot know that, so it never says so, and an operator decides.
func (s *show) undecidable(ctx context.Context) error {
	const tenant, prefix = localfleet.Acme, "never arrived"
	if err := s.fault(tenant, prefix, desk.BeforeEffect); err != nil {
		return err
	}
	r, err := s.request(desk.OpenTicketTool, map[string]any{"title": prefix})
	if err != nil {
		return err
	}
	if _, err := s.clients[tenant].Submit(ctx, r, 0); err != nil {
		return err
	}
	if err := s.awaitStall(ctx, tenant, r.ID); err != nil {
		return err
	}
	route, err := s.clients[tenant].Route(ctx, r.ID)
	if err != nil {
		return err
	}
	host := route.Route.Replica.String()
	s.Say("    the call of %s is out, nothing has happened yet: kill -9 %d (%s)", r.ID, s.fleet.Process(host).PID, host)
	if err := s.fleet.Kill(ctx, host); err != nil {
		return err
	}
	if err := s.awaitUncertain(ctx, tenant, r.ID); err != nil {
		return err
	}
	if err := s.fleet.Start(ctx, host); err != nil {
		return err
	}
	if err := s.awaitUnknown(ctx, r.ID); err != nil {
		return err
	}
	if err := s.decide(ctx, r.ID); err != nil {
		return err
	}
	return s.runAgain(ctx, tenant, r)
}

// awaitUnknown waits until the host itself has said that it cannot tell.
func (s *show) awaitUnknown(ctx context.Context, id fleet.ActionID) error {
	return until(ctx, patience, "the host was not asked", func(ctx context.Context) (bool, error) {
		listed, err := s.fleet.Aipctl(ctx, "reconcile", "list", "-o", "json")
		if err != nil {
			return false, err
		}
		var doc struct {
			Items []fleet.Reconciliation `json:"items"`
		}
		if err := json.Unmarshal(listed.Stdout, &doc); err != nil {
			return false, err
		}
		for _, r := range doc.Items {
			if n := len(r.Probes); r.Action == id && n > 0 && r.Probes[n-1].Answer == "unknown" {
				return true, nil
			}
		}
		return false, nil
	})
}

// decide looks at the provider, as an operator would, and signs what was seen.
func (s *show) decide(ctx context.Context, id fleet.ActionID) error {
	n, err := s.effectsOf(localfleet.Acme, id)
	if err != nil {
		return err
	}
	s.check(n == 0, "the host says that it cannot tell; the provider has %d effects of it", n)
	evidence := filepath.Join(s.fleet.Place().Dir(), "evidence.txt")
	if err := os.WriteFile(evidence, []byte("the ticket desk shows no ticket of action "+id.String()+"; the process that was called is gone\n"), 0o600); err != nil {
		return err
	}
	r, err := s.fleet.Aipctl(ctx, "reconcile", "resolve", id.String(), "--outcome", "did-not-happen", "--evidence", evidence,
		"--reason", "looked at the ticket desk", "--yes")
	if err != nil {
		return err
	}
	s.command(r, 12)
	return r.Failed(0)
}

// runAgain submits the decided action once more.
func (s *show) runAgain(ctx context.Context, tenant string, r action.Request) error {
	err := until(ctx, patience, "the decision did not reach the action", func(ctx context.Context) (bool, error) {
		v, err := s.clients[tenant].Get(ctx, r.ID, 0)
		return err == nil && v.State == action.Retryable, err
	})
	if err != nil {
		return err
	}
	v, err := s.clients[tenant].Submit(ctx, r, patience)
	if err != nil {
		return err
	}
	n, err := s.effectsOf(tenant, r.ID)
	s.check(v.State == action.Completed && v.Fence == 2 && n == 1, "the host was shown the decision: %s under fence %d, with %d effect", v.State, v.Fence, n)
	return err
}
