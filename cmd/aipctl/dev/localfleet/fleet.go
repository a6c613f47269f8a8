package localfleet

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/client"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Options of a fleet. Dir, Programs and Now are required.
type Options struct {
	Dir      string
	Programs Programs
	Hosts    int           // MinHosts..MaxHosts; 0 takes what the fleet had, or MinHosts
	LeaseTTL time.Duration // of every host's lease; 0 is the registry's default
	Brisk    bool          // reconciles with short pauses, for demonstrations and tests
	Idle     bool          // makes everything and starts the database alone: the caller runs the rest
	Now      func() time.Time
	Say      func(format string, args ...any) // progress; nil is silent
}

// Fleet is one fleet of processes. Its methods are for one goroutine, but for
// Aipctl, Client and the names of places.
type Fleet struct {
	options  Options
	place    Place
	programs Programs
	state    state
}

// Open finds the fleet that was made in a directory.
func Open(o Options) (*Fleet, error) {
	place, err := PlaceOf(o.Dir)
	if err != nil {
		return nil, err
	}
	f := &Fleet{options: o, place: place, programs: o.Programs}
	if f.options.LeaseTTL == 0 {
		f.options.LeaseTTL = registry.DefaultLeaseTTL
	}
	f.state, err = place.readState()
	return f, err
}

// prepare is Open, or a new record where there is none.
func prepare(o Options) (*Fleet, error) {
	f, err := Open(o)
	if err == nil {
		return f, f.keepHosts(o.Hosts)
	}
	if fleet.KindOf(err) != fleet.NotFound || f == nil {
		return nil, err
	}
	if o.Hosts == 0 {
		o.Hosts = MinHosts
	}
	if o.Hosts < MinHosts || o.Hosts > MaxHosts {
		return nil, fleet.Invalidf("dev.hosts", "a fleet has %d to %d hosts, not %d", MinHosts, MaxHosts, o.Hosts)
	}
	if err := f.place.make(); err != nil {
		return nil, err
	}
	ports, err := choosePorts(o.Hosts)
	if err != nil {
		return nil, err
	}
	f.state = state{
		Format: stateFormat, CreatedAt: o.Now().UTC(), Ports: ports, Hosts: o.Hosts,
		Done: map[string]bool{}, Processes: map[string]Process{},
	}
	return f, f.place.writeState(f.state)
}

func (f *Fleet) keepHosts(wanted int) error {
	if wanted == 0 || wanted == f.state.Hosts {
		return nil
	}
	return fleet.Errorf(fleet.Conflict, "dev.hosts", "the fleet in %s has %d hosts", f.place.dir, f.state.Hosts).
		Because("a fleet keeps the replicas that it was declared with").
		Advise("aipctl dev down --purge --dir %s, then aipctl dev up --hosts %d", f.place.dir, wanted)
}

func (f *Fleet) say(format string, args ...any) {
	if f.options.Say != nil {
		f.options.Say(format, args...)
	}
}

func (f *Fleet) done(step string) error {
	f.state.Done[step] = true
	return f.place.writeState(f.state)
}

// Place names the fleet's files.
func (f *Fleet) Place() Place { return f.place }

// Hosts lists the hosts in the order of their numbers.
func (f *Fleet) Hosts() []Host { return hosts(f.state.Hosts, f.state.Ports) }

// AipdURL is where aipd serve listens.
func (f *Fleet) AipdURL() string { return url(f.state.Ports.Serve) }

// Client makes a client of aipd with a tenant's credential.
func (f *Fleet) Client(tenant string) (*client.Client, error) {
	token, err := os.ReadFile(f.place.tokenFile(tenant))
	if err != nil {
		return nil, unavailable("dev.token", "the token of "+tenant+" cannot be read", err)
	}
	return client.New(f.AipdURL(), strings.TrimSpace(string(token)))
}

// Up makes the fleet and starts what does not run yet. It returns when every process
// said that it is ready and every replica has its lease; ctx bounds it.
func Up(ctx context.Context, o Options) (*Fleet, error) {
	place, err := PlaceOf(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := place.Free(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(place.dir, 0o755); err != nil {
		return nil, unavailable("dev.directory", "the directory of the fleet cannot be made", err)
	}
	release, err := place.lock()
	if err != nil {
		return nil, err
	}
	defer release()
	f, err := prepare(o)
	if err != nil {
		return nil, err
	}
	steps := []func(context.Context) error{
		func(context.Context) error { return f.place.make() },
		func(context.Context) error { return f.writeConfigs() },
		f.startDatabase, f.publish,
	}
	if !o.Idle {
		steps = append(steps, f.startAll, f.awaitLeases)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return f, err
		}
	}
	return f, nil
}
