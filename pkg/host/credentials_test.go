package host_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/host/secret"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// vault is a provider whose credentials a test changes; a reference may be held up.
type vault struct {
	mu   sync.Mutex
	all  map[string]string
	hold chan struct{}
}

func (v *vault) Get(_ context.Context, ref string) (secret.Secret, error) {
	v.mu.Lock()
	value, hold := v.all[ref], v.hold
	v.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if value == "" {
		return secret.Secret{}, fleet.Errorf(fleet.NotFound, secret.CodeUnknown, "no such reference")
	}
	return secret.New(value), nil
}

// seen collects the credentials that calls were made with.
func seen(r *rig) func() []string {
	var mu sync.Mutex
	var all []string
	r.product.act = func(_ context.Context, c connector.Call) (connector.Result, error) {
		mu.Lock()
		all = append(all, c.CredentialRevision+"="+c.Credential.Reveal())
		mu.Unlock()
		return r.product.happen(c), nil
	}
	return func() []string { mu.Lock(); defer mu.Unlock(); return all }
}

// TestCredentials_G19_EachRouteUsesTheRevisionItPinned rolls a credential: pinned work
// goes on with its own, new work takes the new one, and a revoked one is refused.
func TestCredentials_G19_EachRouteUsesTheRevisionItPinned(t *testing.T) {
	store := &vault{all: map[string]string{"desk": "value-2", "desk.old": "value-1", "desk.new": "value-3"}}
	r := newRig(t, func(c *host.Config) {
		c.Secrets, c.SecretRef = store, "desk"
		c.Credentials = host.Credentials{Current: "cred-2", Previous: []string{"cred-1"}, Refs: map[string]string{"cred-1": "desk.old"}}
	})
	used := seen(r)
	pinned := func(revision string) ask {
		a := r.order(newAction(), 1)
		a.route.CredentialRevisionRef = revision
		return a
	}
	r.send(pinned("cred-1")).wantResult(t, protocol.ResultCompleted)
	r.send(pinned("cred-2")).wantResult(t, protocol.ResultCompleted)
	r.send(pinned("")).wantResult(t, protocol.ResultCompleted)
	r.send(pinned("cred-3")).wantNo(t, host.CodeCredentialRevision, 403, protocol.ClassNotStarted)
	rolled := host.Credentials{
		Current: "cred-3", Previous: []string{"cred-2"}, Revoked: []string{"cred-1"}, Refs: map[string]string{"cred-3": "desk.new"},
	}
	if err := r.host.SetCredentials(rolled); err != nil {
		t.Fatal(err)
	}
	r.send(pinned("cred-3")).wantResult(t, protocol.ResultCompleted)
	r.send(pinned("cred-2")).wantResult(t, protocol.ResultCompleted)
	r.send(pinned("cred-1")).wantNo(t, host.CodeCredentialRevision, 403, protocol.ClassNotStarted)
	want := "cred-1=value-1 cred-2=value-2 cred-2=value-2 cred-3=value-3 cred-2=value-2"
	if got := strings.Join(used(), " "); got != want {
		t.Errorf("calls were made with %s, want %s", got, want)
	}
}

// TestCredentials_G41_RevokedBetweenAcceptanceAndCall: nothing is called with a
// revision that was revoked meanwhile, and the promise says which check refused.
func TestCredentials_G41_RevokedBetweenAcceptanceAndCall(t *testing.T) {
	store := &vault{all: map[string]string{"desk": "v"}, hold: make(chan struct{})}
	r := newRig(t, func(c *host.Config) { c.Secrets, c.SecretRef = store, "desk" })
	first := r.later(r.order(newAction(), 1)) // holds in the provider, past its own check
	r.eventuallyInFlight(1)
	if err := r.host.SetCredentials(host.Credentials{Current: "cred-3", Revoked: []string{"cred-2"}}); err != nil {
		t.Fatal(err)
	}
	second := r.order(newAction(), 1)
	r.send(second).wantNo(t, host.CodeCredentialRevision, 403, protocol.ClassNotStarted)
	close(store.hold)
	(<-first).wantNo(t, host.CodeCredentialRevision, 403, protocol.ClassNotStarted)
	if n := len(r.product.calls); n != 0 {
		t.Errorf("%d calls were made with a revoked credential", n)
	}
}

func (r *rig) eventuallyInFlight(n int) {
	r.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); r.host.InFlight() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("%d are in flight, want %d", r.host.InFlight(), n)
		}
	}
}

func TestCredentials_G40_ContradictionsAreRefused(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]host.Credentials{
		"current revoked":      {Current: "a", Revoked: []string{"a"}},
		"current and previous": {Current: "a", Previous: []string{"a"}},
		"empty previous":       {Current: "a", Previous: []string{""}},
		"unlisted reference":   {Current: "a", Refs: map[string]string{"b": "x"}},
		"too long":             {Current: strings.Repeat("a", 257)},
		"too many":             {Current: "a", Previous: make([]string, 65)},
	} {
		if err := r.host.SetCredentials(c); fleet.CodeOf(err) != "host.credentials" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := r.host.Credentials().Current; got != "cred-2" {
		t.Errorf("a refused policy took effect: %s", got)
	}
}
