package actiontest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

const hold = 10 * time.Second

func claim(t *testing.T, h Harness, owner string, limit int) []action.Record {
	t.Helper()
	claimed, err := h.Store.Claim(t.Context(), action.Claim{Owner: owner, Hold: hold, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

func takeover(t *testing.T, h Harness) {
	claim(t, h, "owner-1", 0)
	r := submit(t, h, submission("1"))
	h.Elapse(t, hold+time.Second)
	claimed := claim(t, h, "owner-2", 10)
	if len(claimed) != 1 || claimed[0].ID != r.ID || claimed[0].Owner != "owner-2" {
		t.Fatalf("claimed %+v, want the orphan", claimed)
	}
	if string(claimed[0].Input) != string(r.Input) || !claimed[0].Deadline.Equal(r.Deadline) {
		t.Fatalf("the claimed record is not whole: %+v", claimed[0])
	}
	next, err := r.Dispatch(1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Store.Advance(t.Context(), next)
	wantKind(t, err, fleet.Conflict, action.CodeMoved)
	if again := claim(t, h, "owner-3", 10); len(again) != 0 {
		t.Fatalf("claimed twice: %+v", again)
	}
}

func claimUnsettled(t *testing.T, h Harness) {
	claim(t, h, "owner-1", 0)
	r := submit(t, h, submission("1"))
	next, err := r.Finish(action.Completed, []byte(`{"ok":true}`), fleet.Digest{}, false)
	r = advance(t, h, next, err)
	done := submit(t, h, submission("2"))
	next, err = done.Finish(action.Completed, []byte(`{"ok":true}`), fleet.Digest{}, true)
	advance(t, h, next, err)
	h.Elapse(t, hold+time.Second)
	claimed := claim(t, h, "owner-2", 10)
	if len(claimed) != 1 || claimed[0].ID != r.ID || string(claimed[0].Result) != `{"ok":true}` {
		t.Fatalf("claimed %+v, want only the unsettled one, with its result", claimed)
	}
}

func liveOwner(t *testing.T, h Harness) {
	claim(t, h, "owner-1", 0)
	submit(t, h, submission("1"))
	h.Elapse(t, hold/2)
	claim(t, h, "owner-1", 0) // renews
	h.Elapse(t, hold/2+time.Second)
	if claimed := claim(t, h, "owner-2", 10); len(claimed) != 0 {
		t.Fatalf("a live owner lost %+v", claimed)
	}
	if claimed := claim(t, h, "owner-1", 10); len(claimed) != 0 {
		t.Fatalf("an owner claimed its own: %+v", claimed)
	}
}

func leave(t *testing.T, h Harness) {
	claim(t, h, "owner-1", 0)
	for i := range 5 {
		submit(t, h, submission(fmt.Sprint(i)))
	}
	if _, err := h.Store.Claim(t.Context(), action.Claim{Owner: "owner-1"}); err != nil {
		t.Fatal(err)
	}
	if first := claim(t, h, "owner-2", 3); len(first) != 3 {
		t.Fatalf("claimed %d, want the limit of 3", len(first))
	}
	if rest := claim(t, h, "owner-2", 3); len(rest) != 2 {
		t.Fatalf("claimed %d, want the other 2", len(rest))
	}
}

func reopen(t *testing.T, h Harness) {
	claim(t, h, "owner-1", 0)
	r := submit(t, h, submission("1"))
	problem := &action.Problem{Kind: fleet.ReplicaUnavailable, Code: "resolve.replica_unavailable", Message: "none", RetryAfterMS: 50}
	next, err := r.Release(problem, fleet.Digest{})
	r = advance(t, h, next, err)
	if r.Problem == nil || *r.Problem != *problem {
		t.Fatalf("stored problem %+v", r.Problem)
	}
	h.Elapse(t, hold+time.Second)
	if claimed := claim(t, h, "owner-2", 10); len(claimed) != 0 {
		t.Fatalf("a retryable action was claimed: %+v", claimed)
	}
	next, err = r.Reopen("owner-2", time.Hour, r.UpdatedAt)
	r = advance(t, h, next, err)
	if r.State != action.Accepted || r.Owner != "owner-2" || r.Runs != 2 || r.Problem != nil || !r.Deadline.Equal(next.Deadline) {
		t.Fatalf("reopened %+v", r)
	}
}

func list(t *testing.T, h Harness) {
	for i := range 7 {
		r := submit(t, h, submission(fmt.Sprint(i)))
		if i%2 == 0 {
			next, err := r.Doubt(nil, fleet.Digest{})
			advance(t, h, next, err)
		}
	}
	other := submission("other")
	other.Tenant, other.Input = tenantB, json.RawMessage(`{}`)
	submit(t, h, other)
	seen := map[string]bool{}
	selection := action.Selection{Tenant: tenantA, Limit: 3}
	for pages := 0; ; pages++ {
		page, err := h.Store.List(t.Context(), selection)
		if err != nil || pages > 3 {
			t.Fatalf("page %d: %v", pages, err)
		}
		for _, r := range page.Records {
			if seen[r.ID.String()] || r.Tenant != tenantA {
				t.Fatalf("%s is twice in the list, or another tenant's", r.ID)
			}
			seen[r.ID.String()] = true
		}
		if page.Next == "" {
			break
		}
		selection.After = page.Next
	}
	if len(seen) != 7 {
		t.Fatalf("the list has %d of 7 actions", len(seen))
	}
	page, err := h.Store.List(t.Context(), action.Selection{States: []action.State{action.Uncertain}})
	if err != nil || len(page.Records) != 4 {
		t.Fatalf("uncertain ones of every tenant: %d, %v; want 4", len(page.Records), err)
	}
}

// owned: an owner finds what it has to bring to rest, and nothing else, a page at a time.
func owned(t *testing.T, h Harness) {
	for _, n := range []string{"1", "2", "3"} {
		submit(t, h, submission(n))
	}
	done := submit(t, h, submission("4"))
	next, err := done.Finish(action.Completed, []byte(`{"ok":true}`), fleet.Digest{}, true)
	advance(t, h, next, err)
	unsettled := submit(t, h, submission("5"))
	next, err = unsettled.Finish(action.Completed, []byte(`{"ok":true}`), fleet.Digest{}, false)
	advance(t, h, next, err)
	other := submission("6")
	other.Owner = "owner-2"
	submit(t, h, other)
	seen := map[fleet.ActionID]bool{}
	for after := ""; ; {
		page, err := h.Store.List(t.Context(), action.Selection{Owner: "owner-1", After: after, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Records {
			if r.Owner != "owner-1" || !r.Orphaned() || seen[r.ID] {
				t.Errorf("listed %s of %s, %s", r.ID, r.Owner, r.State)
			}
			seen[r.ID] = true
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(seen) != 4 {
		t.Errorf("listed %d records, want the three that run and the one to settle", len(seen))
	}
}
