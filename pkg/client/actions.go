package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

const actionsPath = "/aip/v1/actions"

func actionPath(id fleet.ActionID, rest string) string {
	return actionsPath + "/" + url.PathEscape(id.String()) + rest
}

type actionAnswer struct {
	Action action.View `json:"action"`
}

func waiting(wait time.Duration) url.Values {
	if wait <= 0 {
		return nil
	}
	return url.Values{"wait": {wait.String()}}
}

// Submit submits an action, or asks for it again: the same id with the same content
// returns its current state, and runs it again if it is retryable. With wait it
// answers as soon as the action is not running any more, or after that time. Other
// content under the same id or key is Conflict, code action.conflict.
func (c *Client) Submit(ctx context.Context, request action.Request, wait time.Duration) (action.View, error) {
	var out actionAnswer
	err := c.do(ctx, call{
		method: http.MethodPost, path: actionsPath, query: waiting(wait), body: request,
		ok: []int{http.StatusOK, http.StatusAccepted},
	}, &out)
	return out.Action, err
}

// Get reads an action; with wait it answers as soon as the action is not running
// any more, or after that time.
func (c *Client) Get(ctx context.Context, id fleet.ActionID, wait time.Duration) (action.View, error) {
	var out actionAnswer
	err := c.do(ctx, call{
		method: http.MethodGet, path: actionPath(id, ""), query: waiting(wait), ok: []int{http.StatusOK},
	}, &out)
	return out.Action, err
}

// Result returns the exact stored bytes of the action_result document (G44). An
// action without a definite result is Conflict, code action.not_final.
func (c *Client) Result(ctx context.Context, id fleet.ActionID) ([]byte, error) {
	data, _, err := c.raw(ctx, call{method: http.MethodGet, path: actionPath(id, "/result"), ok: []int{http.StatusOK}})
	return data, err
}

// Route returns the durable route of the action with every attempt.
func (c *Client) Route(ctx context.Context, id fleet.ActionID) (registry.RouteRecord, error) {
	var out struct {
		Route registry.RouteRecord `json:"route"`
	}
	err := c.do(ctx, call{method: http.MethodGet, path: actionPath(id, "/route"), ok: []int{http.StatusOK}}, &out)
	return out.Route, err
}

// Cancel asks to stop an action. The answer says where it stands: an action that
// has begun is cancelled only if its host can prove that nothing happened.
func (c *Client) Cancel(ctx context.Context, id fleet.ActionID, reason string) (action.View, error) {
	var out actionAnswer
	err := c.do(ctx, call{
		method: http.MethodPost, path: actionPath(id, "/cancel"), body: action.CancelRequest{Reason: reason},
		ok: []int{http.StatusOK, http.StatusAccepted},
	}, &out)
	return out.Action, err
}

// ListQuery filters a list of the tenant's actions. Zero fields match all.
type ListQuery struct {
	State action.State
	After string // ViewPage.Next of the page before
	Limit int    // 1..action.MaxListItems; 0 leaves it to the server
}

// List reads one page of the tenant's actions, newest first, without results.
func (c *Client) List(ctx context.Context, q ListQuery) (action.ViewPage, error) {
	query := url.Values{}
	set(query, "state", string(q.State))
	set(query, "after", q.After)
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	var out action.ViewPage
	err := c.do(ctx, call{method: http.MethodGet, path: actionsPath, query: query, ok: []int{http.StatusOK}}, &out)
	return out, err
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}
