package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/catalog"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

// Config names the databases of a registry by role. An empty URL leaves the pool
// out, and what needs it refuses.
type Config struct {
	ControlURL   string // aip_control: publication, operator intent
	DataURL      string // aip_data: catalog, routes, settlement, expiry, uncertainty
	LifecycleURL string // aip_lifecycle: leases
	ReadURL      string // aip_readonly: reads only

	// Connections overrides the size of each pool; 0 keeps the default of its role.
	Connections int32
	// ExecMode is how statements are sent; zero caches prepared ones. Behind a pooler
	// that forgets them use pgx.QueryExecModeExec.
	ExecMode pgx.QueryExecMode
	// Coalesce lets calls share transactions. The zero value gives each its own.
	Coalesce Coalesce
	// Application is shown in the server's session list. Default "aipfleet".
	Application string
}

// acquireTimeout bounds the wait for a free connection.
const acquireTimeout = 5 * time.Second

// Registry is the PostgreSQL registry. It is safe for any number of goroutines.
type Registry struct {
	control, data, lifecycle, read *pool
	ring                           routing.Key       // needs control or data
	cursor                         catalog.CursorKey // needs control or data
	retries                        counters
	shared                         *coalescer // nil without Coalesce
	issued                         *issued
}

// Contracts, checked by the compiler.
var (
	_ registry.Catalog   = (*Registry)(nil)
	_ registry.Router    = (*Registry)(nil)
	_ registry.Reader    = (*Registry)(nil)
	_ registry.Publisher = (*Registry)(nil)
	_ registry.Fleet     = (*Registry)(nil)
	_ registry.Uncertain = (*Registry)(nil)
	_ registry.Custody   = (*Registry)(nil)
)

// Open connects every pool that is configured and checks its role, schema and
// privileges (CheckSchema): a process that opens a registry is allowed to run on it.
func Open(ctx context.Context, c Config) (*Registry, error) {
	r := &Registry{issued: newIssued()}
	for _, p := range []struct {
		url, role string
		size      int32
		into      **pool
	}{
		{c.ControlURL, RoleControl, 4, &r.control},
		{c.DataURL, RoleData, 32, &r.data},
		{c.LifecycleURL, RoleLifecycle, 16, &r.lifecycle},
		{c.ReadURL, RoleReadonly, 4, &r.read},
	} {
		if p.url == "" {
			continue
		}
		opened, err := openPool(ctx, c, p.url, p.role, p.size)
		if err != nil {
			r.Close()
			return nil, err
		}
		*p.into = opened
	}
	if err := r.loadKeys(ctx); err != nil {
		r.Close()
		return nil, err
	}
	if c.Coalesce.Ticks > 0 && r.data != nil {
		r.shared = newCoalescer(c.Coalesce, r.sendTick)
	}
	return r, nil
}

// Close ends every connection. Calls that are running get an error.
func (r *Registry) Close() {
	if r.shared != nil {
		r.shared.close()
	}
	for _, p := range []*pool{r.control, r.data, r.lifecycle, r.read} {
		if p != nil {
			p.db.Close()
		}
	}
}

// DataPool is the pool of aip_data, for the action store that shares it; nil when it
// is not configured.
func (r *Registry) DataPool() *pgxpool.Pool {
	if r.data == nil {
		return nil
	}
	return r.data.db
}

// Schema is what Open found of the database's schema. It may be newer than this binary.
func (r *Registry) Schema() SchemaReport {
	for _, p := range []*pool{r.control, r.data, r.lifecycle, r.read} {
		if p != nil {
			return p.schema
		}
	}
	return SchemaReport{}
}

// Reach asks the database whether it is there, once under each role.
func (r *Registry) Reach(ctx context.Context) error {
	for _, p := range []*pool{r.control, r.data, r.lifecycle, r.read} {
		if p == nil {
			continue
		}
		if err := p.db.Ping(ctx); err != nil {
			if sqlState(err) == StatePassword {
				return lockedOut(WrongPassword("the registry's database does not let " + p.role + " in"))
			}
			return fleet.Errorf(fleet.Unavailable, "registry.unavailable", "the registry's database does not answer").Because("as %s", p.role).Caused(err)
		}
	}
	return nil
}

// Pools reports the use of each pool, by role.
func (r *Registry) Pools() map[string]PoolUse {
	use := map[string]PoolUse{}
	for _, p := range []*pool{r.control, r.data, r.lifecycle, r.read} {
		if p != nil {
			s := p.db.Stat()
			use[p.role] = PoolUse{InUse: int(s.AcquiredConns()), Open: int(s.TotalConns()), Max: int(s.MaxConns()), Waits: uint64(s.EmptyAcquireCount())}
		}
	}
	return use
}

// PoolUse is how much of one pool is used.
type PoolUse struct {
	InUse int    `json:"in_use"`
	Open  int    `json:"open"`
	Max   int    `json:"max"`
	Waits uint64 `json:"waits"` // acquisitions that had to wait, since the start
}

// pool is the connections of one role.
type pool struct {
	role   string
	db     *pgxpool.Pool
	schema SchemaReport // as it was when the pool was opened
}

func openPool(ctx context.Context, c Config, url, role string, size int32) (*pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fleet.Invalidf("registry.url", "the database URL of %s is not well formed", role). // the cause would quote it
														Advise("write it as postgres://role:password@host:port/database")
	}
	config.MaxConns = size
	if c.Connections > 0 {
		config.MaxConns = c.Connections
	}
	if c.ExecMode != 0 {
		config.ConnConfig.DefaultQueryExecMode = c.ExecMode
	}
	config.ConnConfig.RuntimeParams["application_name"] = "aipfleet"
	if c.Application != "" {
		config.ConnConfig.RuntimeParams["application_name"] = c.Application
	}
	db, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, refused("registry.connect", "the registry cannot be opened", err)
	}
	p := &pool{role: role, db: db}
	err = p.use(ctx, func(conn *pgxpool.Conn) (err error) {
		p.schema, err = usableSchema(ctx, conn, role)
		return err
	})
	if err != nil {
		db.Close()
		return nil, notOpened("the registry cannot be opened as "+role, err)
	}
	return p, nil
}

// notOpened is a refusal to start: a login that is refused stays refused.
func notOpened(what string, err error) error {
	state := sqlState(err)
	if state == StatePassword {
		return WrongPassword(what)
	}
	e := fleet.AsError(refused("registry.connect", what, err), "registry.connect")
	if strings.HasPrefix(state, "28") {
		e.Kind = fleet.Denied
		return e.Advise("look at pg_hba.conf and the log of the server")
	}
	return e
}

// use runs f on one connection. Not getting one within acquireTimeout means that
// nothing was sent.
func (p *pool) use(ctx context.Context, f func(conn *pgxpool.Conn) error) error {
	waiting, cancel := context.WithTimeout(ctx, acquireTimeout)
	conn, err := p.db.Acquire(waiting)
	cancel()
	if err != nil {
		return fmt.Errorf("%w: %w", errAcquire, err)
	}
	defer conn.Release()
	return f(conn)
}

// row runs a statement that gives one row.
func (p *pool) row(ctx context.Context, statement string, args []any, into ...any) error {
	return p.use(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, statement, args...).Scan(into...)
	})
}

// snapshot runs f in one read-only transaction that sees one point in time.
func (p *pool) snapshot(ctx context.Context, f func(tx pgx.Tx) error) error {
	return p.use(ctx, func(conn *pgxpool.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, f)
	})
}

// needs returns the first pool that is open, or says which one is missing.
func needs(what string, pools ...*pool) (*pool, error) {
	for _, p := range pools {
		if p != nil {
			return p, nil
		}
	}
	return nil, fleet.Errorf(fleet.Denied, "registry.no_"+what+"_pool", "this process was not given the database role that this needs").
		Because("no %s URL is configured", what).Advise("run it where aip_%s is configured", what)
}

func (r *Registry) controlPool() (*pool, error)   { return needs("control", r.control) }
func (r *Registry) dataPool() (*pool, error)      { return needs("data", r.data) }
func (r *Registry) lifecyclePool() (*pool, error) { return needs("lifecycle", r.lifecycle) }
func (r *Registry) catalogPool() (*pool, error)   { return needs("data", r.data, r.control) }
func (r *Registry) intentPool() (*pool, error)    { return needs("control", r.control) }
func (r *Registry) uncertainPool() (*pool, error) { return needs("data", r.data, r.control) }
func (r *Registry) readPool() (*pool, error) {
	return needs("read", r.read, r.control, r.data)
}

func (r *Registry) loadKeys(ctx context.Context) error {
	p, err := needs("data", r.data, r.control)
	if err != nil {
		return nil // leases and plain reads need no keys
	}
	var ring, cursor []byte
	if err := p.row(ctx, "SELECT ring_key, cursor_key FROM aip.deployment", nil, &ring, &cursor); err != nil {
		return refused("registry.deployment", "the deployment's keys could not be read", err)
	}
	r.ring, r.cursor = ring, cursor
	return nil
}
