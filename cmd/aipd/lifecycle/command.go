package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/pkg/crashpoint"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/gateway"
	"github.com/aipfleet/aipfleet/pkg/lifecycle"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// Config is the configuration file of aipd lifecycle.
type Config struct {
	Listen          string `yaml:"listen"`
	TLSCert         string `yaml:"tls_cert"` // with TLSKey; plain HTTP is for loopback
	TLSKey          string `yaml:"tls_key"`
	DatabaseURL     string `yaml:"database_url"`
	DatabaseURLFile string `yaml:"database_url_file"` // one line; keeps the password out of this file
	IdentityKey     string `yaml:"identity_key"`
	LeaseTTL        string `yaml:"lease_ttl"` // such as 30s, the default; 1s to 300s
}

const (
	codeConfig   = "aipd.config"
	maxFileBytes = 1 << 20
	// urlVariable names the database when the file does not.
	urlVariable = "AIPD_DATABASE_URL"
)

// Command is `aipd lifecycle`. It serves until its context ends. A refusal to start
// is a *fleet.Error.
func Command() *cobra.Command {
	var path, listen string
	cmd := &cobra.Command{
		Use: "lifecycle --config FILE", Short: "Serve the signed lifecycle: register, heartbeat, drain, offline", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(path)
			if err != nil {
				return err
			}
			if listen != "" {
				cfg.Listen = listen
			}
			return Run(cmd.Context(), cfg, os.LookupEnv, Streams{cmd.OutOrStdout(), cmd.ErrOrStderr()})
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration file (required)")
	cmd.Flags().StringVar(&listen, "listen", "", "address to serve on, instead of the configured one")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

// Streams of the process: the ready line goes to Out, the log to Err.
type Streams struct{ Out, Err io.Writer }

func load(path string) (Config, error) {
	var cfg Config
	f, err := os.Open(path)
	if err != nil {
		return cfg, fleet.Errorf(fleet.NotFound, codeConfig, "the configuration cannot be opened").Caused(err)
	}
	defer func() { _ = f.Close() }()
	dec := yaml.NewDecoder(io.LimitReader(f, maxFileBytes))
	dec.KnownFields(true)
	if err := dec.Decode(&cfg); err != nil {
		return cfg, fleet.Invalidf(codeConfig, "the configuration %s cannot be read", path).Caused(err)
	}
	if cfg.Listen == "" || cfg.IdentityKey == "" {
		return cfg, fleet.Invalidf(codeConfig, "the configuration %s lacks listen or identity_key", path)
	}
	return cfg, nil
}

// databaseURL finds the URL; it is never quoted in an error, since it holds a password.
func (c Config) databaseURL(env func(string) (string, bool)) (string, error) {
	if c.DatabaseURL != "" {
		return c.DatabaseURL, nil
	}
	if c.DatabaseURLFile != "" {
		text, err := os.ReadFile(c.DatabaseURLFile)
		if err != nil {
			return "", fleet.Invalidf(codeConfig, "the database URL cannot be read").Caused(err)
		}
		return strings.TrimSpace(string(text)), nil
	}
	if url, ok := env(urlVariable); ok && url != "" {
		return url, nil
	}
	return "", fleet.Invalidf(codeConfig, "no database is configured").
		Advise("set database_url_file, database_url or %s: the URL of the role aip_lifecycle", urlVariable)
}

func (c Config) ttl() (time.Duration, error) {
	if c.LeaseTTL == "" {
		return registry.DefaultLeaseTTL, nil
	}
	ttl, err := time.ParseDuration(c.LeaseTTL)
	if err != nil {
		return 0, fleet.Invalidf(codeConfig, "lease_ttl is not a duration").Caused(err)
	}
	return ttl, nil
}

// Run opens the registry and serves until ctx ends.
func Run(ctx context.Context, cfg Config, env func(string) (string, bool), std Streams) error {
	log := slog.New(slog.NewJSONHandler(std.Err, nil))
	signer, err := envelope.LoadSigner(cfg.IdentityKey)
	if err != nil {
		return err
	}
	ttl, err := cfg.ttl()
	if err != nil {
		return err
	}
	url, err := cfg.databaseURL(env)
	if err != nil {
		return err
	}
	store, err := postgres.Open(ctx, postgres.Config{LifecycleURL: url, Application: "aipd lifecycle"})
	if err != nil {
		return err
	}
	defer store.Close()
	if schema := store.Schema(); schema.Newer() {
		log.Warn("the database's schema is newer than this program, and serves it", "schema", schema.Current, "program", schema.Max, "serves_from", schema.Serves)
	}
	control, err := lifecycle.NewServer(lifecycle.ServerConfig{Fleet: store, Signer: signer, Now: crashpoint.Clock(time.Now), TTL: ttl, Log: log})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fleet.Errorf(fleet.Unavailable, "aipd.listen", "the address %s cannot be served", cfg.Listen).Caused(err)
	}
	ready := map[string]any{"ready": true, "listen": listener.Addr().String(), "did": signer.DID().String()}
	_ = json.NewEncoder(std.Out).Encode(ready)
	return serve(ctx, newServer(control, gateway.NewReadiness(time.Now, gateway.Check{Name: "registry", Run: store.Reach}), log), listener, cfg)
}

// newServer adds liveness and readiness to the control endpoint: whether the process
// serves, and whether its database answers.
func newServer(control *lifecycle.Server, ready *gateway.Readiness, log *slog.Logger) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("/", control.Handler())
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		state, status := ready.Now(r.Context()), http.StatusOK
		if !state.Ready {
			status = http.StatusServiceUnavailable
		}
		writeJSON(w, status, state)
	})
	return &http.Server{
		Handler: peer.Strict(mux), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

func writeJSON(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc)
}

// closePatience bounds the wait for requests under way.
const closePatience = 5 * time.Second

func serve(ctx context.Context, server *http.Server, listener net.Listener, cfg Config) error {
	ended := make(chan error, 1)
	go func() {
		if cfg.TLSCert != "" {
			ended <- server.ServeTLS(listener, cfg.TLSCert, cfg.TLSKey)
			return
		}
		ended <- server.Serve(listener)
	}()
	select {
	case err := <-ended:
		return fleet.Errorf(fleet.Unavailable, "aipd.serve", "the server ended").Caused(err)
	case <-ctx.Done():
	}
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer done()
	err := server.Shutdown(closing)
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
