package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Capabilities reads one page of what the tenant may call, at one revision. A
// cursor of an older revision is StaleCursor: begin again (G14). Of the query,
// Search, Exact, Profile, Limit and Cursor are used.
func (c *Client) Capabilities(ctx context.Context, q registry.CatalogQuery) (registry.CatalogPage, error) {
	query := url.Values{}
	set(query, "search", q.Search)
	set(query, "id", q.Exact.String())
	set(query, "profile", q.Profile)
	set(query, "cursor", q.Cursor)
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	var out registry.CatalogPage
	err := c.do(ctx, call{method: http.MethodGet, path: "/aip/v1/capabilities", query: query, ok: []int{http.StatusOK}}, &out)
	return out, err
}

// Ready asks which parts of aipd are ready. A daemon that is not ready answers
// all the same; only one that does not answer is an error.
func (c *Client) Ready(ctx context.Context) (action.Readiness, error) {
	var out action.Readiness
	err := c.do(ctx, call{
		method: http.MethodGet, path: "/ready", ok: []int{http.StatusOK, http.StatusServiceUnavailable},
	}, &out)
	return out, err
}

// Health reports whether aipd answers at all.
func (c *Client) Health(ctx context.Context) error {
	_, _, err := c.raw(ctx, call{method: http.MethodGet, path: "/health", ok: []int{http.StatusOK}})
	return err
}
