// Command next is the registry of the release after this one, for a test: it is built
// with the schema of that release laid over the schema of this tree.
//
//	next up URL             migrate to the newest schema
//	next down URL           undo the newest migration
//	next route URL FROM TO  resolve act_next<n> of tenant-0 for each n, settle the even ones,
//	                        print the assignments of the odd ones, one JSON document a line
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "up":
		return migrate.Up(ctx, args[1])
	case len(args) == 2 && args[0] == "down":
		return migrate.Down(ctx, args[1])
	case len(args) == 4 && args[0] == "route":
		from, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		to, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		return route(ctx, args[1], from, to)
	}
	return fmt.Errorf("next up URL | down URL | route URL FROM TO")
}

func route(ctx context.Context, url string, from, to int) error {
	r, err := postgres.Open(ctx, postgres.Config{DataURL: url})
	if err != nil {
		return err
	}
	defer r.Close()
	tenant, err := fleet.ParseTenantID("tenant-0")
	if err != nil {
		return err
	}
	capability, err := fleet.ParseCapabilityID("desk:open")
	if err != nil {
		return err
	}
	for n := from; n < to; n++ {
		action, err := fleet.ParseActionID(fmt.Sprintf("act_next%d", n))
		if err != nil {
			return err
		}
		a, err := r.Resolve(ctx, registry.RouteRequest{Action: action, Capability: capability, Tenant: tenant})
		if err != nil {
			return err
		}
		if n%2 == 0 {
			_, err = r.Settle(ctx, a, fleet.Settlement{Outcome: fleet.OutcomeCompleted})
		} else {
			err = json.NewEncoder(os.Stdout).Encode(a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
