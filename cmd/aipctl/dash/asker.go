package dash

import (
	"context"
	"sync"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

// asker asks the router why. An explanation needs a key that the readonly role may
// not read, so the registry is opened once more under the control role: not before
// somebody asks, and for this question alone.
type asker struct {
	open func(ctx context.Context, access app.Access) (*app.Registry, error)

	mu  sync.Mutex
	reg *app.Registry
}

// Explain implements tui.Explainer.
func (a *asker) Explain(ctx context.Context, request registry.RouteRequest) (routing.Explanation, error) {
	reg, err := a.registry(ctx)
	if err != nil {
		return routing.Explanation{}, err
	}
	return reg.Explain(ctx, request)
}

func (a *asker) registry(ctx context.Context) (*app.Registry, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reg != nil {
		return a.reg, nil
	}
	reg, err := a.open(ctx, app.Control)
	if err == nil {
		a.reg = reg
	}
	return reg, err
}

// close releases what was opened; nobody asks any more.
func (a *asker) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reg != nil {
		a.reg.Close()
	}
}
