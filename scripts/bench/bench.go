package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// bench is one run: its server, its databases, what is open, and what came out.
type bench struct {
	scope  scope
	plan   plan
	server *server
	cpu    cpuMeter
	log    io.Writer

	sites    []*site           // declared, in order
	drivers  map[string]driver // open, by site and variant
	rows     []row
	problems []string // what makes the run a failure although it has results
}

// site declares one of the databases that several cases share.
func (b *bench) site(name string) *site {
	history := 1_000_000
	if b.scope.quick {
		history = 100_000
	}
	return b.declare(name, mainShape(history))
}

// declare names a database that has to be seeded.
func (b *bench) declare(name string, sh shape) *site {
	for _, s := range b.sites {
		if s.name == name {
			return s
		}
	}
	s := &site{name: name, shape: sh}
	b.sites = append(b.sites, s)
	return s
}

// seeders is how many databases are filled at once.
const seeders = 2

// seedAll makes every declared database and then makes the server durable.
func (b *bench) seedAll(ctx context.Context) error {
	queue := make(chan *site, len(b.sites))
	for _, s := range b.sites {
		queue <- s
	}
	close(queue)
	errs := make([]error, seeders)
	var running sync.WaitGroup
	for i := range seeders {
		running.Go(func() {
			for s := range queue {
				if errs[i] == nil {
					errs[i] = b.seedOne(ctx, s)
				}
			}
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := b.server.makeDurable(ctx); err != nil {
		return err
	}
	b.cpu = cpuMeter{server: b.server.cluster.PID()}
	for _, s := range b.sites {
		if s.name == siteRiver {
			continue
		}
		if err := s.touchPages(ctx); err != nil {
			return fmt.Errorf("touch the pages of %s: %w", s.name, err)
		}
	}
	return nil
}

func (b *bench) seedOne(ctx context.Context, s *site) error {
	began := time.Now()
	s.server = b.server
	fill := seed
	if s.name == siteRiver {
		fill = seedRiver
	}
	if err := fill(ctx, s); err != nil {
		return fmt.Errorf("seed %s: %w", s.name, err)
	}
	fmt.Fprintf(b.log, "bench: seeded %s: %d replicas, %d bindings, %d old routes, in %.1f s\n",
		s.name, s.shape.replicas(), s.shape.bindings(), s.shape.history, time.Since(began).Seconds())
	return nil
}

// driver opens the driver of an arm, or returns the one that is open.
func (b *bench) driver(ctx context.Context, a arm) (driver, error) {
	key := a.site.name + "/" + a.variant
	if d, ok := b.drivers[key]; ok {
		return d, nil
	}
	d, err := a.open(ctx, a.site)
	if err == nil {
		b.drivers[key] = d
	}
	return d, err
}

// closeDrivers closes what a case opened; keep says which stay for the next.
func (b *bench) closeDrivers(keep func(key string) bool) {
	for key, d := range b.drivers {
		if !keep(key) {
			d.close()
			delete(b.drivers, key)
		}
	}
}

// measure runs every experiment and reports each line as it comes.
func (b *bench) measure(ctx context.Context, list []experiment) error {
	defer b.closeDrivers(func(string) bool { return false })
	for i, e := range list {
		rows, err := b.run(ctx, e)
		if err != nil {
			return err
		}
		b.rows = append(b.rows, rows...)
		printRows(b.log, rows)
		if i+1 == len(list) || list[i+1].name != e.name {
			b.closeDrivers(func(key string) bool {
				return key == siteMain+"/"+variantFloor || key == siteMain+"/"+variantOneCall
			})
		}
	}
	return nil
}

const leftoverSQL = `SELECT (SELECT count(*) FROM aip.reservation), (SELECT COALESCE(sum(active), 0) FROM aip.replica_live),
	(SELECT COALESCE(sum(current), 0) FROM aip.scope_counter), (SELECT deadlocks FROM pg_stat_database WHERE datname = current_database())`

// check looks for what a case left behind: every action was settled, so that nothing
// may be reserved, and no transaction may ever have been the victim of a deadlock.
func (b *bench) check(ctx context.Context, e experiment) error {
	seen := map[string]bool{siteRiver: true}
	for _, a := range e.arms {
		if seen[a.site.name] {
			continue
		}
		seen[a.site.name] = true
		if err := b.checkSite(ctx, e, a.site); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) checkSite(ctx context.Context, e experiment, s *site) error {
	conn, err := pgx.Connect(ctx, s.admin())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var reserved, active, counted, deadlocks int64
	if err := conn.QueryRow(ctx, leftoverSQL).Scan(&reserved, &active, &counted, &deadlocks); err != nil {
		return err
	}
	if reserved != 0 || active != 0 || counted != 0 {
		b.problem("%s at %d clients left %d reservations, %d active, %d counted in %s", e.name, e.clients, reserved, active, counted, s.name)
		// The next case starts clean all the same.
		_, err = conn.Exec(ctx, "UPDATE aip.replica_live SET active = 0 WHERE active <> 0; UPDATE aip.scope_counter SET current = 0 WHERE current <> 0; DELETE FROM aip.reservation")
	}
	if deadlocks != s.deadlocks {
		b.problem("%d deadlocks in %s by the end of %s at %d clients", deadlocks-s.deadlocks, s.name, e.name, e.clients)
		s.deadlocks = deadlocks
	}
	return err
}

func (b *bench) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	b.problems = append(b.problems, text)
	fmt.Fprintln(b.log, "bench: problem:", text)
}

// settings reads what matters of the server's settings.
func (b *bench) settings(ctx context.Context) (version string, settings []string, err error) {
	conn, err := pgx.Connect(ctx, b.server.cluster.AdminDSN("postgres"))
	if err != nil {
		return "", nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := conn.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
		return "", nil, err
	}
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes", "wal_level", "shared_buffers", "max_wal_size", "max_connections"} {
		var value string
		if err := conn.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			return "", nil, err
		}
		settings = append(settings, name+"="+value)
	}
	return version, settings, nil
}

// wantsDurability refuses to report figures of a server that would lose commits.
func wantsDurability(settings []string) error {
	for _, want := range []string{"fsync=on", "synchronous_commit=on", "full_page_writes=on"} {
		found := false
		for _, s := range settings {
			found = found || s == want
		}
		if !found {
			return errors.New("the server does not run with " + want)
		}
	}
	return nil
}
