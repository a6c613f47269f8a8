package crash

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/client"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// The daemons beside the hosts, which are named after their replicas.
const (
	Lifecycle = "lifecycle"
	First     = "serve-1"
	Second    = "serve-2"
)

// LeaseTTL of every host, and OwnerLease of every aipd: short, so that tests need not
// wait long for their end.
const (
	LeaseTTL   = 3 * time.Second
	OwnerLease = 2 * time.Second
)

// Keep is how long both aipd keep actions after their end: longer than any test.
const Keep = time.Hour

// Rig is a fleet whose every part may be broken.
type Rig struct {
	Fleet     *localfleet.Fleet
	Daemons   map[string]*Daemon
	Data      *PGProxy             // between both aipd and PostgreSQL
	Leases    *PGProxy             // between the lifecycle service and PostgreSQL
	Network   map[string]*NetProxy // before hosts, by replica
	Registry  *postgres.Registry   // the operator's
	dir       string
	addresses map[string]string // of each aipd
	order     []string          // in which daemons start
}

// Up makes a fleet in a directory out of programs that were built with the tag
// crashpoints, and starts all of it.
func Up(ctx context.Context, dir, programs string) (*Rig, error) {
	found, err := localfleet.FindPrograms(filepath.Join(programs, "aipctl"))
	if err != nil {
		return nil, err
	}
	r := &Rig{
		Daemons: map[string]*Daemon{}, Network: map[string]*NetProxy{}, addresses: map[string]string{}, dir: filepath.Join(dir, "crash"),
	}
	r.Fleet, err = localfleet.Up(ctx, localfleet.Options{
		Dir: filepath.Join(dir, "fleet"), Programs: found, LeaseTTL: LeaseTTL, Brisk: true, Idle: true, Now: time.Now,
	})
	if err != nil {
		return r, err
	}
	for _, step := range []func() error{
		func() error { return os.MkdirAll(r.dir, 0o755) },
		r.interpose, func() error { return r.name(programs) }, r.interposeHost, r.recordCalls, r.StartAll, func() error { return r.open(ctx) },
	} {
		if err := step(); err != nil {
			return r, err
		}
	}
	return r, r.AwaitLeases(ctx)
}

// Down stops everything and removes what the fleet made.
func (r *Rig) Down(ctx context.Context) error {
	var failures []error
	if r.Registry != nil {
		r.Registry.Close()
	}
	for i := len(r.order) - 1; i >= 0; i-- {
		failures = append(failures, r.Daemons[r.order[i]].Kill())
	}
	for _, p := range r.Network {
		p.Close()
	}
	for _, p := range []*PGProxy{r.Data, r.Leases} {
		if p != nil {
			p.Close()
		}
	}
	if r.Fleet != nil {
		failures = append(failures, r.Fleet.Purge(ctx))
	}
	return errors.Join(failures...)
}

// interpose puts proxies between the daemons and their database.
func (r *Rig) interpose() error {
	for role, into := range map[string]**PGProxy{"data": &r.Data, "lifecycle": &r.Leases} {
		path := r.Fleet.Place().Secret(role + ".url")
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		u, err := url.Parse(strings.TrimSpace(string(text)))
		if err != nil {
			return err
		}
		if *into, err = NewPGProxy(u.Host); err != nil {
			return err
		}
		u.Host = (*into).Addr()
		if err := os.WriteFile(path, []byte(u.String()+"\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// name lists the daemons: the fleet's own, and a second aipd.
func (r *Rig) name(programs string) error {
	place := r.Fleet.Place()
	aipd := filepath.Join(programs, "aipd")
	r.add(NewDaemon(r.dir, Lifecycle, aipd, "lifecycle", "--config", place.Config("lifecycle.yaml")))
	for i, name := range []string{First, Second} {
		address, err := freeAddress()
		if err != nil {
			return err
		}
		config := place.Config(name + ".yaml")
		err = edit(place.Config("serve.yaml"), config, func(c map[string]any) {
			c["listen"], c["principal"], c["owner_lease"] = address, fmt.Sprintf("gateway.%d", i+1), OwnerLease.String()
			c["retention"] = map[string]any{"actions": Keep.String(), "every": "200ms"}
		})
		if err != nil {
			return err
		}
		r.addresses[name] = address
		r.add(NewDaemon(r.dir, name, aipd, "serve", "--config", config))
	}
	for _, h := range r.Fleet.Hosts() {
		r.add(NewDaemon(r.dir, h.Replica, filepath.Join(programs, "aiphost"), "run", "--config", place.Config(h.Replica+".yaml")))
	}
	return nil
}

func (r *Rig) add(d *Daemon) {
	r.Daemons[d.Name] = d
	r.order = append(r.order, d.Name)
}

// interposeHost puts a proxy before the one host of globex.
func (r *Rig) interposeHost() error {
	for _, h := range r.Fleet.Hosts() {
		if h.Tenant != localfleet.Globex {
			continue
		}
		behind, err := freeAddress()
		if err != nil {
			return err
		}
		config := r.Fleet.Place().Config(h.Replica + ".yaml")
		if err := edit(config, config, func(c map[string]any) { c["listen"] = behind }); err != nil {
			return err
		}
		if r.Network[h.Replica], err = NewNetProxy(fmt.Sprintf("127.0.0.1:%d", h.Port), behind); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rig) recordCalls() error {
	var failures []error
	for _, tenant := range localfleet.Tenants() {
		failures = append(failures, desk.RecordCalls(r.Fleet.Place().Account(tenant)))
	}
	return errors.Join(failures...)
}

// StartAll starts every daemon that does not run, and waits until all are ready.
func (r *Rig) StartAll() error {
	for _, name := range r.order {
		if err := r.Daemons[name].Launch(); err != nil {
			return err
		}
	}
	for _, name := range r.order {
		if err := r.Daemons[name].AwaitReady(readyTime); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rig) open(ctx context.Context) error {
	text, err := os.ReadFile(r.Fleet.Place().Secret("control.url"))
	if err != nil {
		return err
	}
	r.Registry, err = postgres.Open(ctx, postgres.Config{ControlURL: strings.TrimSpace(string(text))})
	return err
}

// Client makes a client of one aipd with a tenant's credential.
func (r *Rig) Client(aipd, tenant string) (*client.Client, error) {
	token, err := os.ReadFile(r.Fleet.Place().Secret(tenant + ".token"))
	if err != nil {
		return nil, err
	}
	return client.New(r.URL(aipd), strings.TrimSpace(string(token)))
}

// URL of an aipd.
func (r *Rig) URL(aipd string) string { return "http://" + r.addresses[aipd] }

// Hosts lists the replicas of a tenant.
func (r *Rig) Hosts(tenant string) []string {
	var all []string
	for _, h := range r.Fleet.Hosts() {
		if h.Tenant == tenant {
			all = append(all, h.Replica)
		}
	}
	return all
}

// edit changes a configuration file.
func edit(from, to string, change func(map[string]any)) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var c map[string]any
	if err := yaml.Unmarshal(text, &c); err != nil {
		return err
	}
	change(c)
	if text, err = yaml.Marshal(c); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Twin is a second host with the identity of a replica: its own state directory and
// port, the same key. It is not one of the rig's daemons.
func (r *Rig) Twin(dir, replica string) *Daemon {
	path := filepath.Join(dir, "twin.yaml")
	address, err := freeAddress()
	if err == nil {
		err = edit(r.Fleet.Place().Config(replica+".yaml"), path, func(c map[string]any) {
			c["listen"], c["state_dir"] = address, filepath.Join(dir, "state")
		})
	}
	if err != nil { // the daemon will say that it has no configuration
		path = filepath.Join(dir, err.Error())
	}
	return NewDaemon(dir, "twin", r.Daemons[replica].path, "run", "--config", path)
}
