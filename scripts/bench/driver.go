package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// driver is one way of doing the work. Its unit is what one client does next, and
// reports every operation of it.
type driver interface {
	unit(ctx context.Context, j job, t *tally)
	close()
}

// completer is a driver whose operations also complete outside of unit.
type completer interface {
	completed() int64                 // since it was opened
	drained(ctx context.Context) bool // waits until nothing is outstanding
}

// retrier is a driver that repeats some operations silently.
type retrier interface {
	retries() map[string]int // since it was opened
}

// opener makes a driver for one site.
type opener func(ctx context.Context, s *site) (driver, error)

// Variants that are compared on every routing case.
const (
	variantFloor      = "floor"
	variantStatements = "statements"
	variantOneCall    = "one_call"
	variantAdaptive   = "adaptive"
	variantWrites     = "writes" // of the uniform load
)

// variants lists every way of resolving and settling, in the order of the tables.
// A new way of calling the registry is one more line here.
func variants() []struct {
	name string
	open opener
} {
	return []struct {
		name string
		open opener
	}{
		{variantFloor, openFloor},
		{variantStatements, openStatements},
		{variantOneCall, routerWith(postgres.Config{})},
		{variantAdaptive, routerWith(postgres.Config{Coalesce: postgres.DefaultCoalesce()})},
	}
}

// connections is how many a driver may open that gives every client one of its own.
const connections = 128

// routes drives the product's Router.
type routes struct {
	registry *postgres.Registry
}

// routerWith opens the registry as the routing daemon does.
func routerWith(config postgres.Config) opener {
	return func(ctx context.Context, s *site) (driver, error) {
		config.DataURL = s.data()
		config.Application = "bench"
		r, err := postgres.Open(ctx, config)
		if err != nil {
			return nil, err
		}
		return &routes{registry: r}, nil
	}
}

func (d *routes) close() { d.registry.Close() }

func (d *routes) retries() map[string]int {
	r := d.registry.Retries()
	return map[string]int{"deadlock": int(r.Deadlocks), "contended": int(r.Contended), "fate_unknown": int(r.Unknown)}
}

// evidence stands for the digest of a host's signed answer.
var evidence = fleet.DigestBytes([]byte("answer"))

func (d *routes) unit(ctx context.Context, j job, t *tally) {
	began := time.Now()
	a, err := d.registry.Resolve(ctx, registry.RouteRequest{
		Action: fleet.NewActionID(began), Capability: j.capability, Tenant: j.tenant, Topology: topology(),
	})
	if err != nil {
		t.failed("resolve " + failureName(err))
		return
	}
	t.done(resolveKind(j), began)
	began = time.Now()
	_, err = d.registry.Settle(ctx, a, fleet.Settlement{
		Outcome: fleet.OutcomeCompleted, Verdict: fleet.VerdictCompleted, EvidenceDigest: evidence,
	})
	if err != nil {
		t.failed("settle " + failureName(err))
		return
	}
	t.done(opSettle, began)
}

func resolveKind(j job) kind {
	if j.hot {
		return opHot
	}
	return opResolve
}

// failureName classifies an error: the fleet's kind, or the server's code.
func failureName(err error) string {
	var ours *fleet.Error
	if errors.As(err, &ours) {
		return ours.Kind.String()
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		if server.Code == "40P01" {
			return "deadlock"
		}
		return "sqlstate " + server.Code
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	return "other"
}

// floor is the least that any durable decision costs: one statement, one round trip,
// one commit that inserts a row as wide as a route and updates one row by its key.
type floor struct {
	pool *pgxpool.Pool
	body string
	keys int
}

// floorCounters is how many rows the floor's update is spread over.
const floorCounters = 10_000

const floorSQL = `WITH written AS (INSERT INTO bench.floor_row (id, body) VALUES ($1::text, $2::text))
	UPDATE bench.floor_counter SET current = current + 1 WHERE id = $3::integer`

func openFloor(ctx context.Context, s *site) (driver, error) {
	pool, err := openPool(ctx, s.data())
	if err != nil {
		return nil, err
	}
	d := &floor{pool: pool, keys: floorCounters}
	var width int
	if err := pool.QueryRow(ctx, "SELECT width FROM bench.floor_width").Scan(&width); err != nil {
		pool.Close()
		return nil, err
	}
	d.body = strings.Repeat("x", width)
	return d, nil
}

func openPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	config.ConnConfig.RuntimeParams["application_name"] = "bench"
	return pgxpool.NewWithConfig(ctx, config)
}

func (d *floor) close() { d.pool.Close() }

func (d *floor) unit(ctx context.Context, _ job, t *tally) {
	began := time.Now()
	id := fleet.NewActionID(began).String()
	key := int(fnv(id) % uint64(d.keys))
	if _, err := d.pool.Exec(ctx, floorSQL, id, d.body, key); err != nil {
		t.failed(failureName(err))
		return
	}
	t.done(opWrite, began)
}

// fnv spreads ids over the floor's counters.
func fnv(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
