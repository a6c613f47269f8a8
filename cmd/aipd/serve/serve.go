package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/aipfleet/aipfleet/pkg/dispatch"
	"github.com/aipfleet/aipfleet/pkg/fairness"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/gateway"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/reconcile"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/retention"
)

// process is what a program has of its surroundings.
type process struct {
	out    io.Writer
	log    *slog.Logger
	getenv func(string) string
	now    func() time.Time
}

// plane is the running data plane.
type plane struct {
	stores     stores
	engine     *dispatch.Engine
	reconciler *reconcile.Reconciler
	keeper     *retention.Keeper
	handler    http.Handler
	peers      *peer.Client
	grace      time.Duration
	tlsCert    string
	tlsKey     string
}

// run serves until ctx ends, then stops gracefully: no new work, running actions
// settled within the grace, the rest left to a successor.
func (o Options) run(ctx context.Context, p process) error {
	c, err := o.config()
	if err != nil {
		return err
	}
	id, err := loadIdentity(c)
	if err != nil {
		return err
	}
	access, err := loadAccess(c, p.now)
	if err != nil {
		return err
	}
	stores, err := o.openStores(ctx, c, p, id)
	if err != nil {
		return err
	}
	defer stores.close()
	plane, err := build(c, p, id, access, stores)
	if err != nil {
		return err
	}
	defer plane.peers.Close()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fleet.Errorf(fleet.Unavailable, "aipd.listen", "aipd cannot listen on %s", c.Listen).Caused(err)
	}
	return plane.serve(ctx, listener, p, id)
}

// access is who may do what.
type access struct {
	by     []gateway.Authenticator
	jwt    *gateway.JWT // nil without
	policy gateway.Policy
}

func loadAccess(c Config, now func() time.Time) (access, error) {
	var a access
	if c.Auth.TokensFile != "" {
		tokens, err := gateway.LoadTokens(c.Auth.TokensFile, now)
		if err != nil {
			return a, err
		}
		a.by = append(a.by, tokens)
	}
	if j := c.Auth.JWT; j != nil {
		jwt, err := gateway.NewJWT(gateway.JWTConfig{
			Issuer: j.Issuer, Audience: j.Audience, JWKSFile: j.JWKSFile, TenantClaim: j.TenantClaim, Now: now,
		})
		if err != nil {
			return a, err
		}
		a.by, a.jwt = append(a.by, jwt), jwt
	}
	var err error
	a.policy, err = gateway.LoadPolicy(c.PolicyFile)
	return a, err
}

// watchKeys says, and counts, when the issuer's keys were read again.
func (a access) watchKeys(metrics *gateway.Metrics, log *slog.Logger) {
	if a.jwt == nil {
		return
	}
	a.jwt.Watch(func(err error) {
		metrics.KeySet(err)
		if err != nil {
			log.Error("changed JWKS file not usable; the last good keys stay", "code", fleet.CodeOf(err), "error", err.Error())
			return
		}
		log.Info("JWKS file read again")
	})
}

// build wires the planes of this process together.
func build(c Config, p process, id identity, a access, s stores) (*plane, error) {
	addresses, err := peer.ParseAllow(c.AllowRanges)
	if err != nil {
		return nil, err
	}
	scheduler := fairness.New(fairness.Config{Bounds: c.Fairness.bounds(c.Workers), Weight: c.Fairness.weight, Now: p.now})
	// A host serves one tenant: so many calls may be under way to it, and each keeps its
	// connection for the next one.
	peers := peer.NewClient(peer.Config{Addresses: addresses, MaxIdlePerPeer: scheduler.Bounds().InFlightTenant})
	courier := &dispatch.Courier{
		Sender: peers, Signer: id.signer, Principal: c.Principal, Now: p.now, Pauses: dispatch.DefaultPauses(),
	}
	metrics := gateway.NewMetrics(p.now, scheduler.Load)
	metrics.WatchUncertain(s.registry.Status)
	if s.pool != nil {
		metrics.WatchPool(s.pool)
	}
	a.watchKeys(metrics, p.log)
	engine := dispatch.New(dispatch.Config{
		Owner: c.Principal + "/" + fleet.NewMessageID(p.now()).String(), Store: s.actions, Router: s.registry,
		Uncertain: s.registry, Records: s.registry, Scheduler: scheduler, Courier: courier,
		Topology: fleet.TopologyPreference{
			Region: c.Topology.Region, Zone: c.Topology.Zone, CapacityClass: c.Topology.CapacityClass,
			ForbidCrossRegion: c.Topology.ForbidCrossRegion,
		},
		Hold: c.OwnerLease, Grace: c.Grace, Now: p.now, Log: p.log, Observe: metrics.Attempt,
	})
	reconciler := reconcile.New(reconcile.Config{
		Uncertain: s.registry, Routes: s.registry, Records: s.registry, Expirer: s.registry, Actions: s.actions,
		Host: courier, Operators: id.operators, Now: p.now, Log: p.log, Observe: metrics.Resolved,
		Every: c.Reconcile.Every, ExpireEvery: c.Reconcile.ExpireEvery,
		FirstPause: c.Reconcile.FirstPause, LastPause: c.Reconcile.LastPause, Age: c.Reconcile.Age,
	})
	keeper := retention.New(retention.Config{
		Actions: s.archive, Routes: s.registry, Records: s.registry, Host: courier, Keep: c.Retention.Actions, Every: c.Retention.Every, Log: p.log,
		Observe: func(done retention.Pass) { metrics.Retained(done.Archived, done.Told, done.Untold) },
	})
	server := gateway.New(gateway.Config{
		Engine: engine, Actions: s.actions, Routes: s.registry, Catalog: s.registry, By: a.by, Policy: a.policy,
		Ready: gateway.NewReadiness(p.now, checks(s, engine)...), Metrics: metrics, Version: version(), Now: p.now, Log: p.log,
	})
	mux := http.NewServeMux()
	mux.Handle("/", server.Handler())
	if s.lifecycle != nil {
		mux.Handle(protocol.PathControl, s.lifecycle)
	}
	return &plane{
		stores: s, engine: engine, reconciler: reconciler, keeper: keeper, handler: mux, peers: peers, grace: max(c.Grace, 20*time.Second),
		tlsCert: c.TLSCert, tlsKey: c.TLSKey,
	}, nil
}

// checks are the parts without which an action cannot be taken.
func checks(s stores, engine *dispatch.Engine) []gateway.Check {
	return []gateway.Check{
		{Name: "registry", Run: func(ctx context.Context) error {
			_, err := s.registry.List(ctx, registry.Selection{Noun: registry.Types, Limit: 1})
			return err
		}},
		{Name: "actions", Run: engine.Alive},
	}
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}

// serve runs everything and waits for all of it.
func (pl *plane) serve(ctx context.Context, listener net.Listener, p process, id identity) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	server := &http.Server{
		Handler: peer.Strict(pl.handler), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		WriteTimeout: gateway.MaxWait + time.Minute, MaxHeaderBytes: 64 << 10, DisableGeneralOptionsHandler: true,
		BaseContext: func(net.Listener) context.Context { return ctx }, // requests that wait answer at once when it ends
		ErrorLog:    slog.NewLogLogger(p.log.Handler(), slog.LevelWarn),
	}
	var parts sync.WaitGroup
	failed := func(err error) {
		if err != nil && !errors.Is(err, http.ErrServerClosed) {
			cancel(err)
		}
	}
	parts.Go(func() { failed(pl.engine.Run(ctx)) })
	parts.Go(func() { pl.reconciler.Run(ctx) })
	parts.Go(func() { pl.keeper.Run(ctx) })
	parts.Go(func() { failed(pl.listen(server, listener)) })
	parts.Go(func() { pl.reloads(ctx, p) })
	pl.announce(ctx, listener, p, id)
	<-ctx.Done()
	stopping, stop := context.WithTimeout(context.WithoutCancel(ctx), pl.grace)
	defer stop()
	if err := server.Shutdown(stopping); err != nil {
		_ = server.Close()
	}
	parts.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	p.log.Info("stopped")
	return nil
}

// listen serves over TLS when a certificate is configured.
func (pl *plane) listen(server *http.Server, listener net.Listener) error {
	if pl.tlsCert != "" {
		return server.ServeTLS(listener, pl.tlsCert, pl.tlsKey)
	}
	return server.Serve(listener)
}

// announce prints the one line that says the daemon is ready, once it is.
func (pl *plane) announce(ctx context.Context, listener net.Listener, p process, id identity) {
	for pl.engine.Alive(ctx) != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
	_ = json.NewEncoder(p.out).Encode(map[string]any{
		"ready": true, "listen": listener.Addr().String(), "did": id.signer.DID().String(),
	})
}

// reloads applies a newer publication on SIGHUP. Without a registry in memory there
// is nothing to reload, and SIGHUP does nothing.
func (pl *plane) reloads(ctx context.Context, p process) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
		}
		if pl.stores.reload == nil {
			continue
		}
		if err := pl.stores.reload(ctx); err != nil {
			p.log.ErrorContext(ctx, "publication not reloaded", "error", err)
		}
	}
}
