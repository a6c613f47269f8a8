package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/lifecycle"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// machine is where one replica's host runs: its disk outlives the process.
type machine struct {
	w *world
	place
	path  string // of the journal
	sick  []window
	now   atomic.Pointer[process]
	wiped bool // its journal was lost at least once
}

// process is one run of a host.
type process struct {
	m       *machine
	life    *life
	journal *journal.Journal
	lease   *lifecycle.Client
	host    *host.Host
}

func newMachine(w *world, p place) *machine {
	return &machine{
		w: w, place: p, path: filepath.Join(w.options.Dir, p.replica.String()+".db"),
		sick: w.windows(1, 2*time.Second, 15*time.Second, "sick", p.replica.String()),
	}
}

// live runs one process after the other until the run is over.
func (m *machine) live() {
	for n := 0; m.w.ctx.Err() == nil; n++ {
		m.once(newLife(fmt.Sprintf("%s.%d", m.replica, n)))
		if m.w.ctx.Err() != nil {
			return
		}
		if m.w.stormy() && m.w.chance(0.12, "wipe", m.replica.String(), n) {
			m.w.fault(hostWiped, m.replica.String())
			m.wiped = true
			if err := os.Remove(m.path); err != nil {
				panic(err)
			}
		}
		sleep(m.w.ctx, m.w.between(300*time.Millisecond, 10*time.Second, "host down", m.replica.String(), n))
	}
}

func (m *machine) once(l *life) {
	p, err := m.boot(l)
	if err != nil {
		panic(fmt.Sprintf("%s does not start: %v", l.name, err))
	}
	ctx, end := context.WithCancel(m.w.ctx)
	var parts sync.WaitGroup
	parts.Go(func() { p.lease.Run(ctx) })
	parts.Go(func() {
		if p.lease.Await(ctx) == nil {
			_, _, _ = p.host.Recover(ctx) // what stays open is asked for again
		}
	})
	m.now.Store(p)
	m.w.network.listen(m.endpoint(), &server{l, p.host.Handler()})
	m.untilEnd(l, p)
	l.kill() // nothing of it reaches anybody any more
	m.now.Store(nil)
	end()
	parts.Wait()
	p.host.Close()
	_ = p.journal.Close() // a broken one says so
}

// untilEnd waits for the process's end: by a fault where it stands, a broken disk, a
// kill out of the blue, or the end of the run.
func (m *machine) untilEnd(l *life, p *process) {
	ctx, done := context.WithCancel(m.w.ctx)
	defer done()
	if m.w.stormy() {
		n := l.next("life")
		after := m.w.between(2*time.Second, 3*stormTime, "any kill", l.name, n)
		if left := stormTime - m.w.elapsed(); after < left {
			kill := time.AfterFunc(after, func() { m.w.fault(hostAny, l.name); l.kill() })
			defer kill.Stop()
		}
		if after := m.w.between(2*time.Second, 6*stormTime, "freeze", l.name, n); after < stormTime-m.w.elapsed() {
			freeze := time.AfterFunc(after, func() { m.w.fault(hostFreeze, l.name); l.freeze(2*leaseTTL + time.Second) })
			defer freeze.Stop()
		}
	}
	select {
	case <-l.end:
	case <-p.journal.Failed():
	case <-ctx.Done():
	}
}

// boot opens the journal, which recovers, and makes the host.
func (m *machine) boot(l *life) (*process, error) {
	p := &process{m: m, life: l}
	var err error
	p.journal, err = journal.OpenUnsafe(m.path, journal.Options{Now: time.Now}, journal.Seams{NoSync: true, Commit: p.commit})
	if err != nil {
		return nil, err
	}
	r := theRelease()
	own := host.Identity{
		Tenant: m.tenant, Instance: m.instance, Replica: m.replica, Version: r.version, ManifestDigest: r.digest, ArtifactDigest: r.artifact,
	}
	p.lease = lifecycle.NewClient(lifecycle.ClientConfig{
		Register: protocol.Register{
			Replica: m.replica, ManifestDigest: r.digest, ArtifactDigest: r.artifact, Tenant: m.tenant, ConfigRevision: 1,
			SecretProviderRef: "file:sim", CapabilityCount: uint32(len(r.manifest.Capabilities)), Capacity: capacity, Journal: p.journal.ID(),
		},
		Signer: m.signer(), Server: m.w.control.endpoint, Peer: m.w.control.signer.DID(), Sender: p, Epochs: p.journal,
		Report: func(ctx context.Context) lifecycle.Report { return p.host.Report(ctx) }, Now: time.Now,
		Spread: func() float64 { return m.w.unit("spread", l.name, l.next("spread")) },
	})
	p.host, err = host.New(host.Config{
		Identity: own, Manifest: r.manifest, Signer: m.signer(), Gateways: envelope.KeySet{{DID: m.w.gateway.DID()}},
		Operators: envelope.KeySet{{DID: m.w.operator.DID()}}, Journal: p.journal, Connector: arm{p}, Lease: p.lease,
		Capacity: slots, Now: time.Now, PlantUnsafe: m.w.options.Plant.Host,
	})
	return p, err
}

// Rates of the end of a host at each durable write.
const (
	commitRate = 0.002
	diskRate   = 0.0005
)

// commit stands around every durable write of the journal.
func (p *process) commit(write func() error) error {
	w, l := p.m.w, p.life
	if l.dead() {
		return errGone()
	}
	if !w.stormy() {
		return write()
	}
	u := w.unit("commit", l.name, l.next("commit"))
	end := func(kind string, err error) error {
		w.fault(kind, l.name)
		l.kill()
		return err
	}
	switch {
	case u < commitRate:
		return end(hostCommit, errGone())
	case u < commitRate+diskRate:
		return end(hostFull, syscall.ENOSPC)
	}
	if err := write(); err != nil {
		return err
	}
	switch {
	case u > 1-commitRate:
		return end(hostWrote, errGone())
	case u > 1-commitRate-diskRate:
		return end(hostSync, syscall.EIO)
	}
	return nil
}

// Post implements lifecycle.Sender.
func (p *process) Post(ctx context.Context, endpoint peer.Endpoint, path string, body []byte) (peer.Reply, error) {
	if p.m.w.pass(p.life, "control") != nil {
		return peer.Reply{}, unreachable(nil)
	}
	reply, err := p.m.w.control.take(ctx, p.life, endpoint.String(), path, body)
	if p.m.w.pass(p.life, "control") != nil {
		return peer.Reply{}, interrupted()
	}
	return reply, err
}

var errSick = errors.New("the connector is not healthy")
