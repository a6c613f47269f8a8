package migrate

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
	"github.com/aipfleet/aipfleet/schema"
)

// ownerRole owns every object of the schema and cannot log in.
const ownerRole = "aip_owner"

// Init makes the roles, the schema and the deployment row. The administrator is a
// superuser, or may create roles and owns the database. Running it again is harmless:
// what is there stays.
//
// Roles and their passwords belong to the whole cluster, and other databases of it are
// used with them. So a role that exists keeps its password: when the given one is another,
// Init refuses with Conflict, code registry.shared_roles, before anything is changed,
// unless Passwords.Rotate is set. Any number of calls at once, for one database or for
// several of a cluster, are as good as one after the other.
func Init(ctx context.Context, adminURL string, passwords Passwords) error {
	conn, err := connect(ctx, adminURL, "")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := alone(ctx, conn); err != nil {
		return err
	}
	if err := makeRoles(ctx, conn, passwords); err != nil {
		return err
	}
	if err := prepareDatabase(ctx, conn); err != nil {
		return err
	}
	return Up(ctx, adminURL)
}

// alone waits until no other Init works on the same database. The lock goes with the
// connection. It does not keep out one for another database of the cluster: advisory locks
// are a database's own (see unraced).
func alone(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "SET lock_timeout = '60s'; SELECT pg_catalog.pg_advisory_lock(4871, 4)", pgx.QueryExecModeSimpleProtocol)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "55P03" {
		return fleet.Errorf(fleet.Unavailable, "registry.init_busy", "another registry init of this database does not end; nothing was changed").
			Because("it has held its lock for a minute").Advise("try again; if it lasts, look for sessions named aipctl registry")
	}
	return failed("registry.init_database", "the database could not be locked", err)
}

// Up applies the pending migrations, every function, and what the deployment must
// have. The URL is of aip_migrate. An applied migration whose text changed refuses
// with Conflict, code registry.migration_edited; a database that is newer than this
// binary refuses with code registry.schema_newer.
func Up(ctx context.Context, migrateURL string) error {
	return withDB(ctx, migrateURL, func(db *sql.DB, conn *pgx.Conn) error {
		if err := unedited(ctx, conn); err != nil {
			return err
		}
		provider, err := newProvider(db)
		if err != nil {
			return err
		}
		if _, err := provider.Up(ctx); err != nil {
			return failed("registry.migrate", "a migration failed and was rolled back", err)
		}
		return settle(ctx, conn)
	})
}

// Down undoes the newest migration, and with the first one everything.
func Down(ctx context.Context, migrateURL string) error {
	return withDB(ctx, migrateURL, func(db *sql.DB, conn *pgx.Conn) error {
		provider, err := newProvider(db)
		if err != nil {
			return err
		}
		if _, err := provider.Down(ctx); err != nil && !errors.Is(err, goose.ErrNoNextVersion) {
			return failed("registry.migrate", "the migration could not be undone", err)
		}
		version, err := provider.GetDBVersion(ctx)
		if err != nil {
			return failed("registry.migrate", "the version could not be read", err)
		}
		return forget(ctx, conn, version)
	})
}

func newProvider(db *sql.DB) (*goose.Provider, error) {
	files, err := schema.MigrationFS()
	if err != nil {
		return nil, err
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return nil, err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName("aip.goose_db_version"), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fleet.Errorf(fleet.Internal, "registry.migrate", "the migrations of this binary are not well formed").Caused(err)
	}
	return provider, nil
}

// withDB opens the database twice as the owner: goose wants database/sql.
func withDB(ctx context.Context, url string, use func(db *sql.DB, conn *pgx.Conn) error) error {
	conn, err := connect(ctx, url, ownerRole)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	db := stdlib.OpenDB(*conn.Config())
	defer db.Close()
	if err := present(ctx, conn); err != nil {
		return err
	}
	return use(db, conn)
}

func present(ctx context.Context, conn *pgx.Conn) error {
	var found bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'aip')").Scan(&found); err != nil {
		return failed("registry.migrate", "the database could not be read", err)
	}
	if !found {
		return fleet.Errorf(fleet.Conflict, "registry.not_initialised", "the database has no registry schema").
			Advise("aipctl registry init")
	}
	return nil
}

// connect opens one connection, as another role when one is named.
func connect(ctx context.Context, url, role string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fleet.Invalidf("registry.url", "the database URL is not well formed"). // the cause would quote the URL
													Advise("write it as postgres://role:password@host:port/database")
	}
	if role != "" {
		config.RuntimeParams["role"] = role
	}
	config.RuntimeParams["application_name"] = "aipctl registry"
	conn, err := pgx.ConnectConfig(ctx, config)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == postgres.StatePassword && !slices.Contains(LoginRoles(), config.User) {
		return nil, fleet.Errorf(fleet.Denied, "registry.password", "the administrator %s cannot log in to the database", fleet.Printable(config.User, 64)).
			Because("the password in the URL is not the role's, or the server has no such role (%s)", pg.Code).Advise("correct the administrator's URL")
	}
	if err != nil {
		return nil, failed("registry.connect", "the database cannot be reached with this URL", err)
	}
	return conn, nil
}
