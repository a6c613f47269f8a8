package gateway

import (
	"net/http"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// page reads one page of what the tenant's catalog holds and this identity may
// call. It may hold fewer items than asked for, and still have a next one.
func (s *Server) page(r *http.Request, who Identity) (registry.CatalogPage, error) {
	if !s.Ready.Now(r.Context()).Ready { // what cannot be resolved and dispatched is not advertised
		return registry.CatalogPage{}, fleet.Errorf(fleet.Unavailable, "gateway.not_ready", "this aipd cannot take actions now").
			Advise("see which part is not ready: GET /ready")
	}
	q := r.URL.Query()
	query := registry.CatalogQuery{Search: q.Get("search"), Profile: q.Get("profile"), Cursor: q.Get("cursor")}
	var err error
	if query.Limit, err = limitOf(r, registry.MaxPageItems); err != nil {
		return registry.CatalogPage{}, err
	}
	if text := q.Get("id"); text != "" {
		if query.Exact, err = fleet.ParseCapabilityID(text); err != nil {
			return registry.CatalogPage{}, err
		}
	}
	page, err := s.Catalog.Query(r.Context(), who.Tenant, query)
	if err != nil {
		return registry.CatalogPage{}, err
	}
	allowed := []registry.Listing{}
	for _, item := range page.Items {
		if s.Policy.Allows(who, item.Definition) {
			allowed = append(allowed, item)
		}
	}
	page.Items = allowed
	return page, nil
}

func (s *Server) capabilities(w http.ResponseWriter, r *http.Request, who Identity) error {
	page, err := s.page(r, who)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, page)
}

// manifestAnswer is one page of the tenant's capabilities as an AIP manifest.
type manifestAnswer struct {
	Manifest manifestPage `json:"manifest"`
	Revision uint64       `json:"revision"`
	Next     string       `json:"next,omitempty"`
}

// manifestPage says what this gateway offers to one tenant; how it is implemented
// is nobody's business outside.
type manifestPage struct {
	AIPVersion   string                       `json:"aip_version"`
	Name         string                       `json:"name"`
	Version      string                       `json:"version"`
	Capabilities []fleet.CapabilityDefinition `json:"capabilities"`
}

func (s *Server) manifest(w http.ResponseWriter, r *http.Request, who Identity) error {
	page, err := s.page(r, who)
	if err != nil {
		return err
	}
	out := manifestAnswer{Revision: page.Revision, Next: page.Next, Manifest: manifestPage{
		AIPVersion: "1.0", Name: "aipd", Version: s.Version, Capabilities: []fleet.CapabilityDefinition{},
	}}
	for _, item := range page.Items {
		out.Manifest.Capabilities = append(out.Manifest.Capabilities, item.Definition)
	}
	return reply(w, http.StatusOK, out)
}
