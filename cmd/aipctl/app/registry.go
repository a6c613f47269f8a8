package app

import (
	"context"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Access is the database role that a command works under.
type Access string

// The roles. A command takes the least that does its work.
const (
	ReadOnly Access = "readonly"
	Control  Access = "control"
	Migrate  Access = "migrate"
	Admin    Access = "admin" // makes the roles at registry init
)

// Registry is an opened registry: the seven contracts and their release. A
// contract that the role does not give refuses with kind denied.
type Registry struct {
	registry.Catalog
	registry.Router
	registry.Reader
	registry.Publisher
	registry.Fleet
	registry.Uncertain
	registry.Custody
	Close func()
}

// OpenRegistry opens the registry of the chosen target. The caller closes it.
func (a *App) OpenRegistry(ctx context.Context, access Access) (*Registry, error) {
	target, err := a.Target()
	if err != nil {
		return nil, err
	}
	if a.Open == nil {
		return nil, fleet.Errorf(fleet.Unavailable, "registry.backend", "this aipctl has no registry backend")
	}
	return a.Open(ctx, target, access)
}
