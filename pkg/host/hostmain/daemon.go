package hostmain

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aipfleet/aipfleet/pkg/crashpoint"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/lifecycle"
)

// daemon is one run of the host.
type daemon struct {
	options Options
	cfg     config // Secrets, CredentialRevisions and Connector.SecretEnv under mu
	env     func(string) (string, bool)
	now     func() time.Time
	secrets switched

	mu      sync.Mutex
	log     *slog.Logger
	parts   parts
	journal *journal.Journal
	life    life // of the connector
	lease   *lifecycle.Client
	host    *host.Host
	server  *http.Server
}

// run serves until ctx ends, then drains and leaves. An error is a refusal to
// start, or why the process had to stop.
func (d *daemon) run(ctx context.Context) (err error) {
	d.log = slog.New(slog.NewJSONHandler(d.options.Err, nil)).With("replica", d.cfg.Replica.String())
	if err := os.MkdirAll(d.cfg.StateDir, 0o700); err != nil {
		return fleet.Errorf(fleet.Unavailable, codeConfig, "the state directory cannot be made").Caused(err)
	}
	if d.journal, err = journal.OpenUnsafe(filepath.Join(d.cfg.StateDir, "journal.db"), journal.Options{Now: d.now}, journal.Seams{Commit: crashpoint.Disk()}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.journal.Close()) }()
	// With the journal's lock held, nobody else uses the state directory.
	if d.parts, err = loadParts(d.cfg); err != nil {
		return err
	}
	if err := d.build(); err != nil {
		return err
	}
	defer d.life.Close()
	defer d.host.Close()
	listener, err := net.Listen("tcp", d.cfg.Listen)
	if err != nil {
		return fleet.Errorf(fleet.Unavailable, "aiphost.listen", "the address %s cannot be served", d.cfg.Listen).Caused(err)
	}
	return d.serve(ctx, listener)
}

// serve runs the server, the lease and the start-up beside each other, and ends them
// in order.
func (d *daemon) serve(ctx context.Context, listener net.Listener) error {
	beating, stopBeating := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBeating()
	var tasks errgroup.Group
	failed := make(chan error, 1)
	tasks.Go(func() error {
		if err := d.listen(listener); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
		return nil
	})
	tasks.Go(func() error { d.heedReload(beating); return nil })
	tasks.Go(func() error { d.prune(beating); return nil })
	starting, stopStarting := context.WithCancel(ctx)
	tasks.Go(func() error { d.start(starting, &tasks, beating, listener.Addr().String()); return nil })
	var err error
	select {
	case <-ctx.Done():
		d.drain(context.WithoutCancel(ctx))
	case <-d.journal.Failed():
		err = d.journal.Err()
	case err = <-failed:
	}
	stopStarting()
	stopBeating()
	return errors.Join(err, d.shutdown(context.WithoutCancel(ctx), err == nil, &tasks))
}

func (d *daemon) listen(l net.Listener) error {
	if d.cfg.TLS.Cert != "" {
		return d.server.ServeTLS(l, d.cfg.TLS.Cert, d.cfg.TLS.Key)
	}
	return d.server.Serve(l)
}

// connectorPatience bounds the wait for the connector before the host registers
// without it.
const connectorPatience = 15 * time.Second

// start brings the connector and the lease up. A connector runs only once a lease
// was granted for exactly its artifact's digest, now or earlier (G28): only then is
// it known to be the admitted one.
func (d *daemon) start(ctx context.Context, tasks *errgroup.Group, beating context.Context, listen string) {
	admitted, err := d.journal.Admitted()
	if err == nil && admitted == d.parts.release.ArtifactDigest() {
		d.life.Start()
		patience, done := context.WithTimeout(ctx, connectorPatience)
		if err := d.life.AwaitHealthy(patience); err != nil {
			d.log.Error("connector not up", "error", err.Error())
		}
		done()
	}
	if ctx.Err() != nil {
		return
	}
	tasks.Go(func() error { d.lease.Run(beating); return nil })
	if err := d.lease.Await(ctx); err != nil {
		return
	}
	if err := d.journal.SaveAdmitted(ctx, d.parts.release.ArtifactDigest()); err != nil {
		d.log.Error("admission not remembered", "error", err.Error())
		return
	}
	d.life.Start()
	if err := d.life.AwaitHealthy(ctx); err != nil {
		return
	}
	if err := d.lease.Ready(ctx); err != nil {
		d.log.Warn("ready not told", "error", err.Error()) // the next beat tells
	}
	d.announce(listen)
	settled, open, err := d.host.Recover(ctx)
	if err != nil {
		d.log.Error("recovery ended early", "error", err.Error())
	}
	if settled+open > 0 {
		d.log.Info("recovered", "settled", settled, "unknown", open)
	}
}

// announce prints the one line that says that the host serves.
func (d *daemon) announce(listen string) {
	_ = json.NewEncoder(d.options.Out).Encode(map[string]any{
		"ready": true, "listen": listen, "did": d.parts.signer.DID().String(),
	})
}

// leavePatience bounds each message to the lifecycle service on the way out.
const leavePatience = 3 * time.Second

// drain stops new work, tells the registry, and waits for what runs.
func (d *daemon) drain(ctx context.Context) {
	d.log.Info("draining", "in_flight", d.host.InFlight())
	d.host.Drain()
	telling, told := context.WithTimeout(ctx, leavePatience)
	defer told()
	if err := d.lease.Drain(telling, "the process was asked to end"); err != nil {
		d.log.Warn("drain not told", "error", err.Error())
	}
	waiting, done := context.WithTimeout(ctx, d.options.DrainTimeout)
	defer done()
	if err := d.host.Idle(waiting); err != nil {
		d.log.Warn("not everything ended in time", "error", err.Error())
	}
}

// shutdown gives the lease back and ends what serves. What is still being executed is
// cut off and journaled as unknown.
func (d *daemon) shutdown(ctx context.Context, orderly bool, tasks *errgroup.Group) error {
	if orderly {
		telling, told := context.WithTimeout(ctx, leavePatience)
		if err := d.lease.Offline(telling, "the process ends"); err != nil {
			d.log.Warn("offline not told", "error", err.Error())
		}
		told()
	}
	d.host.Close()
	closing, closed := context.WithTimeout(ctx, leavePatience)
	defer closed()
	if err := d.server.Shutdown(closing); err != nil {
		_ = d.server.Close()
	}
	err := tasks.Wait()
	d.log.Info("stopped")
	return err
}
