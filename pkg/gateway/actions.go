package gateway

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// MaxWait bounds ?wait= of one request.
const MaxWait = 5 * time.Minute

// syncWait is how long a submission of mode sync waits when it does not say.
const syncWait = 30 * time.Second

type actionAnswer struct {
	Action action.View `json:"action"`
}

// show answers with a record: 200 when it is final, 202 while it is not.
func show(w http.ResponseWriter, r action.Record) error {
	status := http.StatusAccepted
	if r.State.Final() {
		status = http.StatusOK
	}
	return reply(w, status, actionAnswer{action.ViewOf(r)})
}

func (s *Server) submit(w http.ResponseWriter, r *http.Request, who Identity) error {
	var request action.Request
	if err := s.read(w, r, &request); err != nil {
		return err
	}
	wait, given, err := waitOf(r)
	if err != nil {
		return err
	}
	submission, err := s.submission(request, who)
	if err != nil {
		return err
	}
	record, err := s.admit(r.Context(), who, submission)
	if err != nil {
		return err
	}
	if !given && request.Mode == string(protocol.ModeSync) {
		wait = min(syncWait, submission.Timeout)
	}
	if wait > 0 && record.State.Running() {
		if record, err = s.Engine.Wait(r.Context(), who.Tenant, record.ID, wait); err != nil {
			return err
		}
	}
	return show(w, record)
}

// submission checks what a request says by itself.
func (s *Server) submission(q action.Request, who Identity) (action.Submission, error) {
	id := q.ID
	if id.IsZero() {
		id = fleet.NewActionID(s.Now())
	}
	doc := protocol.Action{
		ID: id, Capability: q.Capability, Input: q.Input, Mode: protocol.Mode(q.Mode),
		IdempotencyKey: q.IdempotencyKey, TimeoutMS: q.TimeoutMS,
	}
	if err := doc.Validate(); err != nil {
		return action.Submission{}, err
	}
	mode := protocol.Mode(q.Mode)
	if mode == protocol.ModeStreaming {
		return action.Submission{}, fleet.Invalidf("action.mode", "streaming is not offered by this aipd").
			Advise("submit with mode sync or async")
	}
	if mode == "" {
		mode = protocol.ModeSync
	}
	return action.Submission{
		ID: id, Tenant: who.Tenant, Capability: q.Capability, Principal: who.Principal, Input: q.Input,
		IdempotencyKey: q.IdempotencyKey, Mode: string(mode), Timeout: doc.Timeout(registry.DefaultTimeToLive),
	}, nil
}

// admit governs the submission: it is in the tenant's catalog, the policy allows
// it, the input fits. What was admitted once is shown whatever the catalog says now.
func (s *Server) admit(ctx context.Context, who Identity, submission action.Submission) (action.Record, error) {
	listing, err := s.lookups.get(ctx, who.Tenant, submission.Capability)
	if err == nil {
		err = s.Policy.Check(who, listing.Definition)
	}
	if err == nil {
		err = s.schemas.check(listing, submission.Input)
	}
	if err == nil {
		return s.Engine.Submit(ctx, submission)
	}
	known, missing := s.Engine.Get(ctx, who.Tenant, submission.ID)
	if missing != nil {
		return action.Record{}, err
	}
	content, broken := submission.ContentDigest()
	switch {
	case broken != nil:
		return action.Record{}, broken
	case content != known.Content:
		return action.Record{}, action.ConflictError("the action id")
	case known.State == action.Retryable:
		return action.Record{}, err
	}
	return known, nil
}

func waitOf(r *http.Request) (wait time.Duration, given bool, err error) {
	text := r.URL.Query().Get("wait")
	if text == "" {
		return 0, false, nil
	}
	wait, err = time.ParseDuration(text)
	if err != nil || wait < 0 {
		return 0, false, fleet.Invalidf("http.wait", "wait is not a duration such as 30s")
	}
	return min(wait, MaxWait), true, nil
}

func actionID(r *http.Request) (fleet.ActionID, error) { return fleet.ParseActionID(r.PathValue("id")) }

// find reads the action named by the path, and waits for it if asked.
func (s *Server) find(r *http.Request, who Identity) (action.Record, error) {
	id, err := actionID(r)
	if err != nil {
		return action.Record{}, err
	}
	wait, _, err := waitOf(r)
	if err != nil {
		return action.Record{}, err
	}
	return s.Engine.Wait(r.Context(), who.Tenant, id, wait)
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, who Identity) error {
	record, err := s.find(r, who)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, actionAnswer{action.ViewOf(record)})
}

// result answers with the stored bytes and nothing else (G44).
func (s *Server) result(w http.ResponseWriter, r *http.Request, who Identity) error {
	record, err := s.find(r, who)
	if err != nil {
		return err
	}
	if !record.State.Final() {
		return fleet.Errorf(fleet.Conflict, "action.not_final", "action %s has no definite result", record.ID).
			Because("it is %s", record.State).Advise("ask again, or wait with ?wait=30s")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(record.Result)
	return nil
}

// route answers with the durable route. Fence tokens stay between gateway and host.
func (s *Server) route(w http.ResponseWriter, r *http.Request, who Identity) error {
	id, err := actionID(r)
	if err != nil {
		return err
	}
	record, err := s.Routes.Lookup(r.Context(), who.Tenant, id)
	if err != nil {
		return err
	}
	attempts := make([]fleet.Attempt, len(record.Attempts))
	for i, a := range record.Attempts {
		a.Fence.Token = ""
		attempts[i] = a
	}
	record.Attempts = attempts
	return reply(w, http.StatusOK, map[string]registry.RouteRecord{"route": record})
}

func (s *Server) cancel(w http.ResponseWriter, r *http.Request, who Identity) error {
	id, err := actionID(r)
	if err != nil {
		return err
	}
	var request action.CancelRequest
	if err := s.read(w, r, &request); err != nil {
		return err
	}
	if err := (protocol.Cancel{ActionID: id, Reason: request.Reason}).Validate(); err != nil {
		return err
	}
	record, err := s.Engine.Cancel(r.Context(), who.Tenant, id, request.Reason)
	if err != nil {
		return err
	}
	return show(w, record)
}

func (s *Server) list(w http.ResponseWriter, r *http.Request, who Identity) error {
	selection := action.Selection{Tenant: who.Tenant, After: r.URL.Query().Get("after")}
	if text := r.URL.Query().Get("state"); text != "" {
		state := action.State(text)
		if !state.Valid() {
			return fleet.Invalidf("http.state", "there is no action state %q", fleet.Printable(text, 32)).
				Advise("use one of %v", action.States())
		}
		selection.States = []action.State{state}
	}
	limit, err := limitOf(r, action.MaxListItems)
	if err != nil {
		return err
	}
	selection.Limit = limit
	page, err := s.Actions.List(r.Context(), selection)
	if err != nil {
		return err
	}
	out := action.ViewPage{Actions: []action.View{}, Next: page.Next}
	for _, record := range page.Records {
		out.Actions = append(out.Actions, action.ViewOf(record))
	}
	return reply(w, http.StatusOK, out)
}

func limitOf(r *http.Request, most int) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return 0, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > most {
		return 0, fleet.Invalidf("http.limit", "limit is not 1..%d", most)
	}
	return limit, nil
}
