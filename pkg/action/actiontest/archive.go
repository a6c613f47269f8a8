package actiontest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

const keep = 24 * time.Hour

func archive(t *testing.T, h Harness) action.Archive {
	t.Helper()
	a, ok := h.Store.(action.Archive)
	if !ok {
		t.Fatal("the store archives nothing")
	}
	return a
}

func sweep(t *testing.T, h Harness, limit int) int {
	t.Helper()
	n, led, err := archive(t, h).Archive(t.Context(), keep, limit)
	if err != nil || !led {
		t.Fatalf("archive: led %v, %v", led, err)
	}
	return n
}

// ended is an action that completed, as it is once it is settled.
func ended(t *testing.T, h Harness, s action.Submission) action.Record {
	t.Helper()
	next, err := submit(t, h, s).Dispatch(1)
	r := advance(t, h, next, err)
	next, err = r.Finish(action.Completed, []byte(`{"action_id":"act_1","status":"completed"}`), fleet.DigestBytes([]byte("answer")), true)
	return advance(t, h, next, err)
}

func archivedStays(t *testing.T, h Harness) {
	first := submission("1")
	first.IdempotencyKey = "invoice-7"
	r := ended(t, h, first)
	h.Elapse(t, keep+time.Minute)
	if n := sweep(t, h, 10); n != 1 {
		t.Fatalf("%d actions archived", n)
	}
	_, err := h.Store.Get(t.Context(), tenantA, r.ID)
	wantKind(t, err, fleet.NotFound, action.CodeArchived)
	_, err = h.Store.Get(t.Context(), tenantB, r.ID)
	wantKind(t, err, fleet.NotFound, action.CodeUnknown)
	_, err = h.Store.Advance(t.Context(), r)
	if !fleet.Is(err, fleet.NotFound) {
		t.Errorf("advanced: %v", err)
	}
	page, err := h.Store.List(t.Context(), action.Selection{Tenant: tenantA})
	if err != nil || len(page.Records) != 0 {
		t.Errorf("%d records are listed, %v", len(page.Records), err)
	}
	for name, c := range map[string]struct {
		id     string
		change func(*action.Submission)
		code   string
	}{
		"the same again":          {"1", func(*action.Submission) {}, action.CodeArchived},
		"its key, another id":     {"2", func(*action.Submission) {}, action.CodeArchived},
		"its id, other content":   {"1", func(s *action.Submission) { s.Input = json.RawMessage(`{}`) }, action.CodeConflict},
		"its key, other content":  {"3", func(s *action.Submission) { s.Input = json.RawMessage(`{}`) }, action.CodeConflict},
		"its id, another tenant":  {"1", func(s *action.Submission) { s.Tenant = tenantB }, action.CodeConflict},
		"its id, without the key": {"1", func(s *action.Submission) { s.IdempotencyKey = "" }, action.CodeConflict},
	} {
		s := submission(c.id)
		s.IdempotencyKey = "invoice-7"
		c.change(&s)
		_, created, err := h.Store.Submit(t.Context(), s)
		if created || !fleet.Is(err, fleet.Conflict) || fleet.CodeOf(err) != c.code {
			t.Errorf("%s: created %v, %v (%s), want %s", name, created, err, fleet.CodeOf(err), c.code)
		}
	}
	apart := submission("4")
	apart.IdempotencyKey, apart.Tenant = "invoice-7", tenantB
	submit(t, h, apart)
	if n := sweep(t, h, 10); n != 0 {
		t.Errorf("archived again: %d", n)
	}
}

func archivedOnly(t *testing.T, h Harness) {
	submit(t, h, submission("accepted"))
	next, err := submit(t, h, submission("dispatched")).Dispatch(1)
	advance(t, h, next, err)
	problem := action.ProblemOf(fleet.Errorf(fleet.Unknown, "dispatch.no_answer", "nobody knows"))
	next, err = submit(t, h, submission("uncertain")).Dispatch(1)
	next, err = advance(t, h, next, err).Doubt(problem, fleet.Digest{})
	advance(t, h, next, err)
	next, err = submit(t, h, submission("retryable")).Release(problem, fleet.Digest{})
	advance(t, h, next, err)
	next, err = submit(t, h, submission("unsettled")).Dispatch(1)
	next, err = advance(t, h, next, err).Finish(action.Failed, []byte(`{"status":"failed"}`), fleet.Digest{}, false)
	unsettled := advance(t, h, next, err)
	for i := range 3 {
		ended(t, h, submission(fmt.Sprintf("old%d", i)))
	}
	h.Elapse(t, keep+time.Minute)
	ended(t, h, submission("young"))
	if _, _, err := archive(t, h).Archive(t.Context(), action.MinKeep-1, 10); !fleet.Is(err, fleet.Invalid) {
		t.Errorf("a shorter keeping: %v", err)
	}
	if a, b, c := sweep(t, h, 2), sweep(t, h, 2), sweep(t, h, 2); a != 2 || b != 1 || c != 0 {
		t.Errorf("archived %d, %d and %d with a limit of 2", a, b, c)
	}
	for _, id := range []string{"accepted", "dispatched", "uncertain", "retryable", "unsettled", "young"} {
		if _, err := h.Store.Get(t.Context(), tenantA, submission(id).ID); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	advance(t, h, unsettled.Settle(), nil)
	h.Elapse(t, keep+time.Minute)
	if n := sweep(t, h, 10); n != 2 {
		t.Errorf("once settled, and old: %d archived", n)
	}
}

func archivedTold(t *testing.T, h Harness) {
	a := archive(t, h)
	untold := func(limit int) int {
		t.Helper()
		claimed, err := a.Untold(t.Context(), limit, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range claimed {
			if e.Tenant != tenantA {
				t.Errorf("%s is of %s", e.ID, e.Tenant)
			}
		}
		return len(claimed)
	}
	var ids []fleet.ActionID
	for i := range 3 {
		s := submission(fmt.Sprint(i))
		ids = append(ids, s.ID)
		ended(t, h, s)
		if h.Routed != nil {
			h.Routed(t, s)
		}
	}
	if n := untold(10); n != 0 {
		t.Fatalf("%d are to be told of before the end", n)
	}
	h.Elapse(t, keep+time.Minute)
	if n := sweep(t, h, 10); n != 3 {
		t.Fatalf("%d archived", n)
	}
	if a, b, c := untold(2), untold(2), untold(2); a != 2 || b != 1 || c != 0 {
		t.Errorf("claimed %d, %d and %d with a limit of 2", a, b, c)
	}
	if err := a.Told(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	h.Elapse(t, time.Minute+time.Second)
	if n := untold(10); n != 2 {
		t.Errorf("after the hold %d are claimed", n)
	}
	h.Elapse(t, time.Minute+time.Second)
	if n := untold(10); n != 0 {
		t.Errorf("the pause did not double: %d are claimed", n)
	}
	h.Elapse(t, time.Minute)
	if n := untold(10); n != 2 {
		t.Errorf("after the doubled pause %d are claimed", n)
	}
	if err := a.Told(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
	h.Elapse(t, action.MaxTellPause)
	if n := untold(10); n != 0 {
		t.Errorf("%d are told again", n)
	}
}
