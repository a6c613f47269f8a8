package serve

import (
	"context"
	"crypto/rand"
	"net/http"
	"os"

	"github.com/aipfleet/aipfleet/pkg/action"
	actionmemory "github.com/aipfleet/aipfleet/pkg/action/memory"
	actionpostgres "github.com/aipfleet/aipfleet/pkg/action/postgres"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/gateway"
	"github.com/aipfleet/aipfleet/pkg/lifecycle"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/memory"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// contracts are the parts of a registry that the data plane uses. It never publishes.
type contracts interface {
	registry.Catalog
	registry.Router
	registry.Fleet
	registry.Uncertain
	List(ctx context.Context, selection registry.Selection) (registry.Records, error)
	Status(ctx context.Context) (registry.Status, error)
}

// stores is the state of one data plane.
type stores struct {
	registry  contracts
	actions   action.Store
	archive   action.Archive
	pool      func() gateway.PoolUse          // only with PostgreSQL
	lifecycle http.Handler                    // only with the registry in memory
	reload    func(ctx context.Context) error // only with the registry in memory
	close     func()
}

// openStores opens what the configuration names, or refuses: wrong role, schema of
// another age, privileges that differ from the matrix, a publication nobody signed.
func (o Options) openStores(ctx context.Context, c Config, p process, id identity) (stores, error) {
	if c.Registry == "memory" {
		return o.openMemory(ctx, c, p, id)
	}
	url, err := c.databaseURL(p.getenv)
	if err != nil {
		return stores{}, err
	}
	limits := c.Coalesce.limits()
	reg, err := postgres.Open(ctx, postgres.Config{DataURL: url, Application: "aipd serve", Coalesce: limits})
	if err != nil {
		return stores{}, err
	}
	if schema := reg.Schema(); schema.Newer() {
		p.log.WarnContext(ctx, "the database's schema is newer than this program, and serves it", "schema", schema.Current, "program", schema.Max, "serves_from", schema.Serves)
	}
	sharing := actionpostgres.Sharing{Direct: limits.Direct, Workers: limits.Ticks, Batch: limits.Batch}
	actions := actionpostgres.NewSharing(reg.DataPool(), p.now, sharing)
	pool := func() gateway.PoolUse {
		use := reg.Pools()[postgres.RoleData]
		return gateway.PoolUse{InUse: use.InUse, Max: use.Max, Waits: use.Waits}
	}
	return stores{registry: reg, actions: actions, archive: actions, pool: pool, close: func() { actions.Close(); reg.Close() }}, nil
}

// memoryRegistry is a registry in memory with the file it came from.
type memoryRegistry struct {
	*memory.Registry
	file   string
	unsafe bool
	id     identity
	p      process
	number uint64
	at     uint64 // catalog revision
}

func (o Options) openMemory(ctx context.Context, c Config, p process, id identity) (stores, error) {
	m := &memoryRegistry{
		Registry: memory.New(memory.Config{RingKey: randomKey(), CursorKey: randomKey(), Now: p.now}),
		file:     c.Publication, unsafe: o.AllowMutationsUnsafe, id: id, p: p,
	}
	if err := m.load(ctx); err != nil {
		return stores{}, err
	}
	p.log.WarnContext(ctx, "the registry is in memory: routes, results and leases are lost when this process ends; it serves the lifecycle endpoint too")
	if m.unsafe {
		p.log.WarnContext(ctx, "capabilities that change something are offered although a crash forgets what was done (--allow-mutations-unsafe)")
	}
	server, err := lifecycle.NewServer(lifecycle.ServerConfig{Fleet: m.Registry, Signer: id.signer, Now: p.now, TTL: c.LeaseTTL, Log: p.log})
	if err != nil {
		return stores{}, err
	}
	actions := actionmemory.New(p.now)
	return stores{
		registry: m.Registry, actions: actions, archive: actions, lifecycle: server.Handler(), reload: m.load, close: func() {},
	}, nil
}

func randomKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // does not fail
	return key
}

// load applies the publication file, if an operator signed it for this aipd, it has a
// higher number than the last, and what it offers may be offered here.
func (m *memoryRegistry) load(ctx context.Context) error {
	data, err := os.ReadFile(m.file)
	if err != nil {
		return configError("%s", err.Error())
	}
	pub, err := registry.OpenPublication(data, m.id.operators, m.id.signer.DID(), m.p.now())
	if err != nil {
		return err
	}
	if pub.Number <= m.number {
		return fleet.Errorf(fleet.Conflict, "publish.number", "the publication is not newer than the present one").
			Because("its number is %d, the present one's is %d", pub.Number, m.number)
	}
	if err := m.harmless(pub.ChangeSet); err != nil {
		return err
	}
	done, err := m.Apply(ctx, pub.ChangeSet, m.at)
	if err != nil {
		return err
	}
	m.number, m.at = pub.Number, done.After
	m.p.log.InfoContext(ctx, "publication applied", "number", pub.Number, "revision", done.After)
	return nil
}

func (m *memoryRegistry) harmless(set registry.ChangeSet) error {
	if m.unsafe {
		return nil
	}
	for _, v := range set.Versions {
		for _, c := range v.Manifest.Capabilities {
			if c.Contract.SideEffects.Mutates() {
				return fleet.Errorf(fleet.Denied, "aipd.memory_mutation", "a registry in memory may not offer %s", c.ID).
					Because("it changes something (%s), and a crash would forget whether it was done", c.Contract.SideEffects).
					Advise("use --registry postgres; for a trial, --allow-mutations-unsafe")
			}
		}
	}
	return nil
}

// identity is who this aipd is and whom it believes.
type identity struct {
	signer    envelope.Signer
	operators envelope.KeySet
}

func loadIdentity(c Config) (identity, error) {
	var id identity
	var err error
	if id.signer, err = envelope.LoadSigner(c.IdentityKey); err != nil {
		return id, err
	}
	if c.Operators != "" {
		id.operators, err = envelope.LoadKeySet(c.Operators)
	}
	return id, err
}
