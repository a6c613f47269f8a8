package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Engine runs actions; *dispatch.Engine is one.
type Engine interface {
	Submit(ctx context.Context, s action.Submission) (action.Record, error)
	Get(ctx context.Context, tenant fleet.TenantID, id fleet.ActionID) (action.Record, error)
	Wait(ctx context.Context, tenant fleet.TenantID, id fleet.ActionID, most time.Duration) (action.Record, error)
	Cancel(ctx context.Context, tenant fleet.TenantID, id fleet.ActionID, reason string) (action.Record, error)
}

// Actions lists actions; action.Store has it.
type Actions interface {
	List(ctx context.Context, selection action.Selection) (action.Page, error)
}

// Routes reads routes; registry.Router has it.
type Routes interface {
	Lookup(ctx context.Context, tenant fleet.TenantID, action fleet.ActionID) (registry.RouteRecord, error)
}

// Config makes a Server. Every field is required.
type Config struct {
	Engine   Engine
	Actions  Actions
	Routes   Routes
	Catalog  registry.Catalog
	By       []Authenticator // asked in order
	Policy   Policy
	Ready    *Readiness
	Metrics  *Metrics
	Version  string // of the program, for the manifest
	Now      func() time.Time
	Log      *slog.Logger
	MaxInput int64 // bytes of one request body; 0 means 4 MiB less what its message adds
}

// What the message to a host adds to a request: bytes, and levels of nesting. A
// request that a host could not read is refused before an action exists.
const (
	messageOverhead = 64 << 10
	messageLevels   = 2
)

// Server is aipd's HTTP surface.
type Server struct {
	Config
	schemas schemas
	lookups *lookups
}

// New makes a server.
func New(c Config) *Server {
	if c.MaxInput <= 0 {
		c.MaxInput = protocol.MaxMessageBytes - messageOverhead
	}
	return &Server{Config: c, lookups: newLookups(c.Catalog)}
}

// authed is a handler of a request whose sender is proved.
type authed func(w http.ResponseWriter, r *http.Request, who Identity) error

// Handler is every route of the surface.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	open := func(pattern string, h http.HandlerFunc) { mux.Handle(pattern, s.Metrics.observe(pattern, h)) }
	closed := func(pattern string, h authed) { open(pattern, s.authenticated(h)) }

	open("GET /health", s.health)
	open("GET /ready", s.ready)
	open("GET /metrics", s.Metrics.handler())
	closed("POST /aip/v1/actions", s.submit)
	closed("GET /aip/v1/actions", s.list)
	closed("GET /aip/v1/actions/{id}", s.get)
	closed("GET /aip/v1/actions/{id}/result", s.result)
	closed("GET /aip/v1/actions/{id}/route", s.route)
	closed("POST /aip/v1/actions/{id}/cancel", s.cancel)
	closed("GET /aip/v1/capabilities", s.capabilities)
	closed("GET /aip/v1/manifest", s.manifest)
	open("/", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, fleet.Errorf(fleet.NotFound, "http.path", "there is nothing at %s %s", r.Method, fleet.Printable(r.URL.Path, 200)))
	})
	return mux
}

func (s *Server) authenticated(h authed) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, err := authenticate(r, s.By)
		if err == nil {
			err = h(w, r, who)
		}
		if err != nil {
			s.refuse(w, r, err)
		}
	}
}
