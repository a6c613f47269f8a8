package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/crashpoint"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/scripts/crash"
)

// The rows of the architecture's failure table, each with the containment it promises.

// TestContain_G08_G19_NoEligibleReplica: new routing is rejected, and nothing that the
// client says makes a target.
func TestContain_G08_G19_NoEligibleReplica(t *testing.T) {
	intend(t, fleet.IntentDrain)
	until(t, "the replica drains", func(context.Context) (bool, error) { return replica(t).Live.Status == fleet.ReplicaDraining, nil })
	o := order(t, crash.First, globex, "nobody may serve this")
	v := becomes(t, o, action.Retryable)
	if v.Problem == nil || v.Problem.Kind != fleet.ReplicaUnavailable || !strings.Contains(v.Problem.Why+v.Problem.Message, "drain") {
		t.Errorf("refused with %+v", v.Problem)
	}
	c, err := rig.Client(crash.First, globex)
	must(t, err)
	if _, err := c.Route(bounded(t), o.ID()); fleet.KindOf(err) != fleet.NotFound {
		t.Errorf("a route was made: %v", err)
	}
	body := `{"capability_id":"ticketdesk:open_ticket","input":{"title":"x"},"replica_id":"` + only + `"}`
	if status, said := post(t, crash.First, globex, body); status != http.StatusBadRequest {
		t.Errorf("a client names a replica: %d %s", status, said)
	}
	intend(t, fleet.IntentRun)
	settle(t, []*crash.Order{o})
}

func post(t *testing.T, aipd, tenant, body string) (int, string) {
	t.Helper()
	token, err := os.ReadFile(rig.Fleet.Place().Secret(tenant + ".token"))
	must(t, err)
	req, err := http.NewRequestWithContext(bounded(t), http.MethodPost, rig.URL(aipd)+"/aip/v1/actions", strings.NewReader(body))
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Content-Type", "application/json")
	return answer(t, req)
}

func answer(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	must(t, err)
	return resp.StatusCode, string(said)
}

// TestContain_G31_CapacityReached: what exceeds a replica waits within its bounds or
// fails and says so; another tenant does not notice.
func TestContain_G31_CapacityReached(t *testing.T) {
	account := rig.Fleet.Place().Account(globex)
	must(t, desk.WriteFaults(account, desk.Faults{Rules: []desk.Rule{
		{ID: "full", TitlePrefix: "fills", At: desk.BeforeEffect, Action: desk.ActionStall, StallMS: 60_000, Times: 100},
	}}))
	orders, err := rig.Work(bounded(t), globex, "fills", localfleet.Capacity)
	must(t, err)
	until(t, "every place is taken", func(context.Context) (bool, error) { return replica(t).Live.Active == localfleet.Capacity, nil })
	over := order(t, crash.First, globex, "one too many")
	v := becomes(t, over, action.Retryable)
	if v.Problem == nil || v.Problem.Kind != fleet.ReplicaUnavailable && v.Problem.Kind != fleet.CapacityExceeded {
		t.Errorf("the one too many is told %+v", v.Problem)
	}
	if calls, err := rig.Calls(over); err != nil || calls != 0 {
		t.Errorf("it was called %d times, %v", calls, err)
	}
	becomes(t, order(t, crash.First, acme, "another tenant"), action.Completed)
	must(t, desk.Release(account))
	must(t, desk.WriteFaults(account, desk.Faults{}))
	settle(t, append(orders, over))
	must(t, desk.HoldAgain(account))
}

// TestContain_G39_RegistryUnavailable: no new selection; what is assigned stays, and is
// recovered when the registry is back.
func TestContain_G39_RegistryUnavailable(t *testing.T) {
	account := rig.Fleet.Place().Account(globex)
	must(t, desk.WriteFaults(account, desk.Faults{Rules: []desk.Rule{
		{ID: "while away", TitlePrefix: "assigned before", At: desk.AfterEffect, Action: desk.ActionStall, StallMS: 60_000},
	}}))
	o := order(t, crash.First, globex, "assigned before")
	until(t, "the call is held", func(context.Context) (bool, error) { n, err := rig.Effects(o); return n == 1, err })
	route := routeOf(t, o)
	rig.Data.Down(true)
	refused, err := crash.NewOrder(globex, "selected while away")
	must(t, err)
	if _, err := rig.Submit(bounded(t), crash.First, refused); err == nil {
		t.Error("an action was acknowledged without a registry")
	} else if k := fleet.KindOf(err); k != fleet.Unavailable && k != fleet.Unknown {
		t.Errorf("refused as %s: %v", k, err)
	}
	must(t, desk.Release(account))
	time.Sleep(time.Second)
	rig.Data.Down(false)
	struck(t, "registry unavailable", true)
	becomes(t, o, action.Completed)
	if after := routeOf(t, o); after.Route.Replica != route.Route.Replica || len(after.Attempts) != 1 {
		t.Errorf("the route is %+v", after)
	}
	settle(t, []*crash.Order{o, refused})
	must(t, desk.WriteFaults(account, desk.Faults{}))
	must(t, desk.HoldAgain(account))
}

// TestContain_G09_LeaseExpires: the replica gets nothing new, what runs on it finishes
// and its result is kept.
func TestContain_G09_LeaseExpires(t *testing.T) {
	account := rig.Fleet.Place().Account(globex)
	must(t, desk.WriteFaults(account, desk.Faults{Rules: []desk.Rule{
		{ID: "lease ends", TitlePrefix: "runs on", At: desk.BeforeEffect, Action: desk.ActionStall, StallMS: 60_000},
	}}))
	o := order(t, crash.First, globex, "runs on")
	until(t, "the call is made", func(context.Context) (bool, error) { n, err := rig.Calls(o); return n == 1, err })
	must(t, rig.Daemons[crash.Lifecycle].Kill())
	until(t, "the lease ends", func(context.Context) (bool, error) { return replica(t).Live.Status == fleet.ReplicaOffline, nil })
	fresh := order(t, crash.First, globex, "without a lease")
	if v := becomes(t, fresh, action.Retryable); v.Problem == nil || v.Problem.Kind != fleet.ReplicaUnavailable {
		t.Errorf("new work is told %+v", v.Problem)
	}
	must(t, desk.Release(account))
	becomes(t, o, action.Completed) // with no lease and no lifecycle service
	struck(t, "lease expired under a running call", true)
	must(t, desk.WriteFaults(account, desk.Faults{}))
	settle(t, []*crash.Order{o, fresh})
	must(t, desk.HoldAgain(account))
}

// TestContain_G09_HostDisappearsAfterTheCall: the route is kept and the outcome
// reconciled, although another replica of the account stands by.
func TestContain_G09_HostDisappearsAfterTheCall(t *testing.T) {
	for _, name := range rig.Hosts(acme) {
		must(t, rig.Daemons[name].Arm(crashpoint.ProviderEffect, "kill"))
	}
	o := order(t, crash.First, acme, "the host disappears")
	becomes(t, o, action.Uncertain)
	route := routeOf(t, o)
	struck(t, "SIGKILL at provider_effect", rig.Daemons[route.Route.Replica.String()].Killed())
	for _, name := range rig.Hosts(acme) {
		rig.Daemons[name].Disarm()
	}
	again, err := rig.Submit(bounded(t), crash.Second, o)
	if err != nil || again.State != action.Uncertain {
		t.Errorf("submitted again: %s, %v", again.State, err)
	}
	if calls, err := rig.Calls(o); err != nil || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
	settle(t, []*crash.Order{o})
	if after := routeOf(t, o); after.Route.Replica != route.Route.Replica || len(after.Attempts) != len(route.Attempts) {
		t.Errorf("the route moved: %+v", after)
	}
}

// TestContain_G20_LifecycleUnavailable: leases are not renewed, and no aipd takes its
// place.
func TestContain_G20_LifecycleUnavailable(t *testing.T) {
	must(t, rig.Daemons[crash.Lifecycle].Kill())
	struck(t, "lifecycle service SIGKILLed", rig.Daemons[crash.Lifecycle].Killed())
	for _, aipd := range []string{crash.First, crash.Second} {
		req, err := http.NewRequestWithContext(bounded(t), http.MethodPost, rig.URL(aipd)+protocol.PathControl, bytes.NewReader([]byte(`{}`)))
		must(t, err)
		if status, said := answer(t, req); status != http.StatusNotFound {
			t.Errorf("%s answers a control message: %d %s", aipd, status, said)
		}
	}
	until(t, "the leases end", func(context.Context) (bool, error) { return replica(t).Live.Status == fleet.ReplicaOffline, nil })
	settle(t, nil)
}

// TestContain_G33_StaleEvidence: a release whose bytes are not those of its evidence is
// rejected; what runs is not touched.
func TestContain_G33_StaleEvidence(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "release")
	must(t, rig.Fleet.PackNext(bounded(t), dir))
	manifest := filepath.Join(dir, "manifest.json")
	text, err := os.ReadFile(manifest)
	must(t, err)
	must(t, os.WriteFile(manifest, bytes.Replace(text, []byte("ticket"), []byte("Ticket"), 1), 0o644))
	result, err := rig.Fleet.Aipctl(bounded(t), "admit", "release", dir, "--yes", "--reason", "changed after it was signed")
	must(t, err)
	if result.Exit == 0 {
		t.Errorf("a changed release was admitted: %s", result.Stdout)
	}
	becomes(t, order(t, crash.First, acme, "after a refused release"), action.Completed)
	settle(t, nil)
}

// TestContain_G40_ReadinessIsLocal: aipd is ready whatever becomes of hosts, and is not
// when its own registry is away; a host is ready without an aipd.
func TestContain_G40_ReadinessIsLocal(t *testing.T) {
	must(t, rig.Daemons[only].Kill())
	if ready, said := readiness(t, rig.URL(crash.First)); !ready || strings.Contains(said, "desk") {
		t.Errorf("aipd without a host: %s", said)
	}
	rig.Data.Down(true)
	until(t, "aipd says that its registry is away", func(context.Context) (bool, error) {
		ready, said := readiness(t, rig.URL(crash.First))
		return !ready && strings.Contains(said, "registry"), nil
	})
	rig.Data.Down(false)
	until(t, "aipd is ready again", func(context.Context) (bool, error) { ready, _ := readiness(t, rig.URL(crash.First)); return ready, nil })
	must(t, rig.Daemons[crash.First].Kill())
	must(t, rig.Daemons[crash.Second].Kill())
	must(t, rig.Daemons[only].Start())
	until(t, "the host is ready without an aipd", func(context.Context) (bool, error) {
		ready, _ := readiness(t, "http://"+rig.Network[only].Target())
		return ready, nil
	})
	struck(t, "each plane down by itself", true)
	settle(t, nil)
}

func readiness(t *testing.T, base string) (bool, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(bounded(t), http.MethodGet, base+"/ready", nil)
	must(t, err)
	status, said := answer(t, req)
	var doc struct {
		Ready bool `json:"ready"`
	}
	if err := json.Unmarshal([]byte(said), &doc); err != nil || doc.Ready != (status == http.StatusOK) {
		t.Errorf("%s: %d %s", base, status, said)
	}
	return doc.Ready, fmt.Sprint(status, " ", said)
}
