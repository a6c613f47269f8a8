package apptest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Aipd is a small aipd: it keeps actions in a map and ends each as Next says.
type Aipd struct {
	URL string

	mu      sync.Mutex
	now     func() time.Time
	actions []action.View
	Next    action.State // the state in which a submitted action is at once
	Ready   action.Readiness
}

func newAipd(t testing.TB, now func() time.Time) *Aipd {
	a := &Aipd{now: now, Next: action.Completed, Ready: action.Readiness{Ready: true, Parts: []action.ReadinessPart{{Name: "registry", Ready: true}}}}
	server := httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(server.Close)
	a.URL = server.URL
	return a
}

// Set puts every action into a state.
func (a *Aipd) Set(state action.State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.actions {
		a.actions[i] = ended(a.actions[i], state)
	}
}

func (a *Aipd) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	rest := strings.TrimPrefix(r.URL.Path, "/aip/v1/actions")
	switch {
	case r.URL.Path == "/ready":
		answer(w, http.StatusOK, a.Ready)
	case r.Header.Get("Authorization") != "Bearer test-token":
		refuse(w, fleet.Errorf(fleet.Denied, "auth.credential", "the credential is not known"))
	case rest == "" && r.Method == http.MethodPost:
		a.submit(w, r)
	case rest == "":
		answer(w, http.StatusOK, action.ViewPage{Actions: a.actions})
	default:
		a.one(w, strings.Split(strings.Trim(rest, "/"), "/"))
	}
}

func (a *Aipd) one(w http.ResponseWriter, path []string) {
	for i, v := range a.actions {
		if v.ID.String() != path[0] {
			continue
		}
		if len(path) == 2 && path[1] == "result" {
			if !v.Final {
				refuse(w, fleet.Errorf(fleet.Conflict, "action.not_final", "action %s has no definite result", v.ID))
				return
			}
			_, _ = w.Write(v.Result)
			return
		}
		if len(path) == 2 && path[1] == "cancel" && !v.Final {
			a.actions[i] = ended(v, action.Cancelled)
		}
		answer(w, http.StatusOK, map[string]any{"action": a.actions[i]})
		return
	}
	id, err := fleet.ParseActionID(path[0])
	if err != nil {
		refuse(w, fleet.AsError(err, "id.action"))
		return
	}
	refuse(w, action.NotFoundError(id))
}

func (a *Aipd) submit(w http.ResponseWriter, r *http.Request) {
	var request action.Request
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	if err != nil {
		refuse(w, fleet.Invalidf("http.body", "the body is not a request"))
		return
	}
	for _, v := range a.actions {
		if v.ID == request.ID && v.Capability != request.Capability {
			refuse(w, action.ConflictError("action "+v.ID.String()))
			return
		}
		if v.ID == request.ID {
			answer(w, http.StatusOK, map[string]any{"action": v})
			return
		}
	}
	now := a.now()
	v := ended(action.View{ID: request.ID, Tenant: Tenant("acme"), Capability: request.Capability, Principal: "tester", Mode: "sync",
		Runs: 1, Fence: 1, CreatedAt: now, UpdatedAt: now, Deadline: now.Add(time.Minute)}, a.Next)
	a.actions = append(a.actions, v)
	answer(w, http.StatusOK, map[string]any{"action": v})
}

func ended(v action.View, state action.State) action.View {
	v.State, v.Final, v.Result, v.Problem = state, state.Final(), nil, nil
	switch state {
	case action.Completed:
		v.Result = json.RawMessage(`{"action_id":"` + v.ID.String() + `","output":{"id":"T-1"},"status":"completed"}`)
	case action.Uncertain:
		v.Problem = action.ProblemOf(fleet.Errorf(fleet.Unknown, "dispatch.no_answer", "the host did not answer").Advise("aipctl reconcile show %s", v.ID))
	case action.Retryable:
		v.Problem = action.ProblemOf(fleet.Errorf(fleet.Unavailable, "dispatch.never_sent", "the host could not be reached"))
	}
	return v
}

func answer(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc)
}

func refuse(w http.ResponseWriter, e *fleet.Error) {
	answer(w, e.Kind.Info().HTTPStatus, map[string]any{"error": action.ProblemOf(e)})
}
