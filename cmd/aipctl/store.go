package main

import (
	"context"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

// opener opens a target's PostgreSQL registry under one role (G20). A command that
// looks needs no more than the readonly URL.
func opener(a *app.App) app.Opener {
	return func(ctx context.Context, t app.Target, access app.Access) (*app.Registry, error) {
		url, err := a.DatabaseURL(t, access)
		if err != nil {
			return nil, err
		}
		config := postgres.Config{Connections: 2, Application: "aipctl"}
		if access == app.Control {
			config.ControlURL = url
		} else {
			config.ReadURL = url
		}
		r, err := postgres.Open(ctx, config)
		if err != nil {
			return nil, err
		}
		return &app.Registry{Catalog: r, Router: r, Reader: r, Publisher: r, Fleet: r, Uncertain: r, Custody: r, Close: r.Close}, nil
	}
}

// verifier compares a target's database with this program.
func verifier(a *app.App) app.Verifier {
	return func(ctx context.Context, t app.Target) ([]string, error) {
		url, err := a.DatabaseURL(t, app.ReadOnly)
		if err != nil {
			return nil, err
		}
		return migrate.Verify(ctx, url)
	}
}
