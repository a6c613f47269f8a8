package localfleet

import (
	"context"
	"errors"
	"os"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster"
)

// database of the registry in the private cluster.
const database = "aipfleet"

// startDatabase runs the private server and makes the registry in it, with the
// commands that an operator uses.
func (f *Fleet) startDatabase(ctx context.Context) error {
	cluster, fresh, err := f.cluster(ctx)
	if err != nil {
		return err
	}
	if fresh {
		f.say("PostgreSQL listens on port %d, process %d", cluster.Port(), cluster.PID())
	}
	if err := writeFile(f.place.Secret("admin.url"), []byte(cluster.AdminDSN(database)+"\n"), 0o600); err != nil {
		return err
	}
	if !f.state.Done[stepDatabase] {
		if err := cluster.DropDatabase(ctx, database); err != nil {
			return err
		}
		if err := cluster.CreateDatabase(ctx, database, ""); err != nil {
			return err
		}
		if err := f.done(stepDatabase); err != nil {
			return err
		}
	}
	if _, err := f.must(ctx, "registry", "init", "--urls", f.place.Secret("")); err != nil {
		return err
	}
	_, err = f.must(ctx, "registry", "migrate")
	return err
}

// cluster finds the running server or starts it.
func (f *Fleet) cluster(ctx context.Context) (*pgcluster.Cluster, bool, error) {
	cluster, err := pgcluster.Attach(f.place.postgres())
	if err == nil {
		return cluster, false, nil
	}
	if fleet.CodeOf(err) != pgcluster.CodeNotRunning {
		return nil, false, err
	}
	cluster, err = pgcluster.Start(ctx, pgcluster.Config{
		Dir: f.place.postgres(), Port: f.state.Ports.Postgres, MaxConnections: 100, Detach: true,
	})
	return cluster, true, err
}

// stopDatabase ends the server.
func (f *Fleet) stopDatabase(ctx context.Context) error {
	return pgcluster.StopDir(ctx, f.place.postgres())
}

// removeDatabase ends the server and removes its files, wherever they are.
func (p Place) removeDatabase(ctx context.Context) error {
	if _, err := os.Stat(p.postgres()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return pgcluster.RemoveDir(ctx, p.postgres())
}
