package main

import (
	"context"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// small is every kind of group that the plans seed, in miniature.
func small() shape {
	return shape{
		groups: []group{
			{name: groupBase, tenants: 3, instances: 2, replicas: 2, capabilities: 3, capacity: 8},
			{name: groupHot10, tenants: 1, instances: 2, replicas: 2, capabilities: 1, capacity: 50},
			{name: fanName(10), tenants: 1, instances: 1, replicas: 10, capabilities: 1, capacity: 50, unlimited: true},
		},
		history: 300,
	}
}

// seeded starts a server with one small site and makes it durable, as a run does.
func seeded(t *testing.T) (*bench, *site) {
	t.Helper()
	b := &bench{log: io.Discard, drivers: map[string]driver{}, plan: plan{rounds: 2, window: window{20 * time.Millisecond, 150 * time.Millisecond}, warmUp: 50 * time.Millisecond}}
	srv, err := newServer(t.Context(), "", false, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.close)
	b.server = srv
	s := b.declare("small", small())
	if err := b.seedAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b, s
}

func audit(t *testing.T, s *site) {
	t.Helper()
	r, err := postgres.Open(t.Context(), postgres.Config{ReadURL: s.reader()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	snapshot, err := r.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(snapshot.Routes) < s.shape.history || len(snapshot.Candidates) == 0 {
		t.Fatalf("the snapshot has %d routes, %d chains: nothing was audited", len(snapshot.Routes), len(snapshot.Candidates))
	}
	for _, v := range registry.Audit(snapshot) {
		t.Errorf("%s broken by %s: %s", v.Guarantee, v.Subject, v.What)
	}
}

// What is seeded by hand must be a fleet that the registry could have made itself, and
// every variant must leave one behind; otherwise the figures are of something else.
func TestSeed_G04_G08_G18_TheSeededFleetPassesTheAuditBeforeAndAfterEveryVariant(t *testing.T) {
	b, s := seeded(t)
	audit(t, s)
	for _, v := range variants() {
		for _, g := range []string{groupBase, groupHot10} {
			d, err := v.open(t.Context(), s)
			if err != nil {
				t.Fatalf("%s: %v", v.name, err)
			}
			sample := runSlice(t.Context(), d, s.shape.group(g).uniform(), 4, b.plan.window, b.cpu)
			d.close()
			if len(sample.tally.errors) > 0 || sample.perSecond == 0 {
				t.Errorf("%s on %s: %.0f ops/s, errors %v", v.name, g, sample.perSecond, sample.tally.errors)
			}
		}
	}
	if err := b.checkSite(t.Context(), experiment{name: "test"}, s); err != nil || len(b.problems) > 0 {
		t.Errorf("left behind: %v %v", err, b.problems)
	}
	audit(t, s)
}

func TestFloor_TheFloorWritesARowAsWideAsARoute(t *testing.T) {
	b, s := seeded(t)
	d, err := openFloor(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	d.unit(t.Context(), job{}, newTally(never()))
	d.close()
	conn, err := pgx.Connect(t.Context(), s.admin())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var floor, route int
	err = conn.QueryRow(t.Context(), `SELECT (SELECT max(pg_column_size(f.*)) FROM bench.floor_row f),
		(SELECT max(pg_column_size(r.*)) FROM (SELECT * FROM aip.route ORDER BY assigned_at DESC LIMIT 1) r)`).Scan(&floor, &route)
	if err != nil {
		t.Fatal(err)
	}
	if floor < route-16 || floor > route+16 {
		t.Errorf("a row of the floor has %d bytes, a route %d", floor, route)
	}
	if err := b.checkSite(t.Context(), experiment{name: "test"}, s); err != nil || len(b.problems) > 0 {
		t.Errorf("left behind: %v %v", err, b.problems)
	}
}

// What runs beside the load must itself succeed, and leave a fleet that routes.
func TestBeside_G13_G22_PublisherAndBeatsSucceedWhileOthersRoute(t *testing.T) {
	b, s := seeded(t)
	for name, background := range map[string]func(context.Context, *site) (func() map[string]float64, error){"publishing": publishing, "beating": beating} {
		a := arm{variant: variantOneCall, open: routerWith(postgres.Config{}), site: s, pick: s.shape.group(groupBase).uniform(), background: background}
		e := experiment{name: name, clients: 2, arms: []arm{{variant: variantFloor, open: openFloor, site: s, pick: a.pick}, a}, rounds: 2, window: window{0, 600 * time.Millisecond}}
		e.after = b.restoreLeases(s)
		rows, err := b.run(t.Context(), e)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := rows[1]
		if got.Errors > 0 || got.Ratio <= 0 || got.More["publications_failed"]+got.More["beats_failed"] > 0 || got.More["publications_per_s"]+got.More["beats_per_s"] == 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	b.closeDrivers(func(string) bool { return false })
	if len(b.problems) > 0 {
		t.Errorf("problems: %v", b.problems)
	}
	audit(t, s)
}

func TestPublication_G13_ABigPublicationIsMeasuredWhileOthersRoute(t *testing.T) {
	b, s := seeded(t)
	rows, err := b.publication(t.Context(), s, 60, 2)
	if err != nil {
		t.Fatal(err)
	}
	if r := rows[0]; r.Errors > 0 || r.OpsPerSecond == 0 || r.More["publication_s"] == 0 {
		t.Errorf("%+v", r)
	}
	if _, err := newBindings(s.shape.groups[0], 1_000_000); err == nil {
		t.Error("a fleet without room for the publication was not refused")
	}
	audit(t, s)
}

func TestRiver_EveryInsertedJobIsCompletedAndCounted(t *testing.T) {
	b, _ := seeded(t)
	s := &site{server: b.server, name: siteRiver}
	if err := seedRiver(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	d, err := openRiver(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	jobs := d.(*riverJobs)
	for range 20 {
		d.unit(t.Context(), job{}, newTally(never()))
	}
	if !jobs.drained(t.Context()) || jobs.completed() != 20 || jobs.inserted.Load() != 20 {
		t.Errorf("inserted %d, completed %d", jobs.inserted.Load(), jobs.completed())
	}
}

func TestPicker_TheHotTenantTakesItsShare(t *testing.T) {
	pick := skewed(0.2, small().group(groupHot10), small().group(groupBase))
	r := rand.New(rand.NewPCG(1, 2))
	hot := 0
	for range 10_000 {
		if pick(r).hot {
			hot++
		}
	}
	if hot < 1800 || hot > 2200 {
		t.Errorf("%d of 10000 jobs were hot, want about 2000", hot)
	}
}
