package serve

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/client"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

const patience = 20 * time.Second

func TestServe_G39_OverPostgreSQL(t *testing.T) {
	s := newSmall(t)
	s.migrated()
	d := s.start("gateway-1")
	s.host(s.lifecycleService())
	tour(t, s, d)
	t.Run("G44_AnotherAipdShowsTheSameResult", func(t *testing.T) {
		request := openTicket()
		first := submit(t, d.client(t, "token-acme"), request)
		other := s.start("gateway-2")
		c := other.client(t, "token-acme")
		again := submit(t, c, request)
		if string(again.Result) != string(first.Result) || s.product.called(request.ID) != 1 {
			t.Fatalf("another aipd shows %s", again.Result)
		}
		d.stop()
		if got := submit(t, c, openTicket()); got.State != action.Completed {
			t.Fatalf("the other aipd alone: %s", got.State)
		}
	})
}

func TestServe_G39_OverMemory(t *testing.T) {
	s := newSmall(t)
	s.publish(1, s.changeSet())
	d := s.start("gateway-1")
	s.host(d.address, s.aipd.DID())
	tour(t, s, d)
}

func submit(t *testing.T, c *client.Client, request action.Request) action.View {
	t.Helper()
	got, err := c.Submit(t.Context(), request, patience)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// tour is what a client sees of one fleet, whatever its registry.
func tour(t *testing.T, s *small, d daemon) {
	c, stranger := d.client(t, "token-acme"), d.client(t, "token-globex")
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"G44_ARepeatIsByteEqual", func(t *testing.T) { repeat(t, s, c) }},
		{"G03_AnotherCapabilityConflicts", func(t *testing.T) { conflict(t, c) }},
		{"G18_AnotherTenantSeesNothing", func(t *testing.T) { strangers(t, c, stranger) }},
		{"G19_NoTenantInTheBody", func(t *testing.T) { tenantInBody(t, d) }},
		{"G40_RefusalsSayWhichRule", func(t *testing.T) { refusals(t, c, stranger, d) }},
		{"G38_ALostAnswerIsReconciled", func(t *testing.T) { lostAnswer(t, s, c) }},
		{"G14_CatalogAndReadiness", func(t *testing.T) { catalog(t, c, stranger) }},
		{"G18_MetricsNameNoTenant", func(t *testing.T) { metrics(t, d) }},
		{"G40_HostileRequestsAndDocuments", func(t *testing.T) { hostile(t, s, d) }},
	} {
		t.Run(step.name, step.run)
	}
}

func repeat(t *testing.T, s *small, c *client.Client) {
	request := openTicket()
	request.IdempotencyKey = "invoice-7"
	first := submit(t, c, request)
	if first.State != action.Completed || first.Fence != 1 {
		t.Fatalf("got %+v (%+v)", first, first.Problem)
	}
	raw, err := c.Result(t.Context(), request.ID)
	if err != nil || string(raw) != string(first.Result) || !strings.Contains(string(raw), "9007199254740993") || !strings.Contains(string(raw), "<b>") {
		t.Fatalf("result %s, %v; shown %s", raw, err, first.Result)
	}
	other := openTicket()
	other.IdempotencyKey = "invoice-7"
	if again := submit(t, c, other); again.ID != request.ID || string(again.Result) != string(first.Result) {
		t.Fatalf("the same key gave %s", again.ID)
	}
	route, err := c.Route(t.Context(), request.ID)
	if err != nil || route.Route.Replica.String() != "crepl_a" || len(route.Attempts) != 1 || route.Attempts[0].Fence.Token != "" {
		t.Fatalf("route %+v, %v", route, err)
	}
	if s.product.called(request.ID) != 1 {
		t.Fatal("it was called more than once")
	}
	page, err := c.List(t.Context(), client.ListQuery{State: action.Completed})
	if err != nil || len(page.Actions) != 1 || page.Actions[0].ID != request.ID {
		t.Fatalf("list %+v, %v", page, err)
	}
}

func conflict(t *testing.T, c *client.Client) {
	request := openTicket()
	submit(t, c, request)
	request.Input = json.RawMessage(`{"title":"chair"}`)
	if _, err := c.Submit(t.Context(), request, 0); !fleet.Is(err, fleet.Conflict) || fleet.CodeOf(err) != action.CodeConflict {
		t.Fatalf("got %v", err)
	}
}

func strangers(t *testing.T, c, stranger *client.Client) {
	request := openTicket()
	submit(t, c, request)
	_, err := stranger.Get(t.Context(), request.ID, 0)
	wantRefusal(t, err, fleet.NotFound, action.CodeUnknown)
	_, err = stranger.Result(t.Context(), request.ID)
	wantRefusal(t, err, fleet.NotFound, action.CodeUnknown)
	_, err = stranger.Cancel(t.Context(), request.ID, "")
	wantRefusal(t, err, fleet.NotFound, action.CodeUnknown)
	_, err = stranger.Route(t.Context(), request.ID)
	wantRefusal(t, err, fleet.NotFound, "route.action")
}

func wantRefusal(t *testing.T, err error, kind fleet.Kind, code string) {
	t.Helper()
	if !fleet.Is(err, kind) || fleet.CodeOf(err) != code {
		t.Fatalf("got %v (%s %s), want %s %s", err, fleet.KindOf(err), fleet.CodeOf(err), kind, code)
	}
}

func post(t *testing.T, url, token, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

func tenantInBody(t *testing.T, d daemon) {
	for _, member := range []string{`"tenant_id":"acme"`, `"instance_id":"cinst_a"`, `"replica_id":"crepl_a"`, `"endpoint":"http://127.0.0.1:1"`} {
		body := `{"capability_id":"desk:open","input":{"title":"x"},` + member + `}`
		if status, text := post(t, d.address+"/aip/v1/actions", "token-globex", body); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", member, status, text)
		}
	}
}

func refusals(t *testing.T, c, stranger *client.Client, d daemon) {
	request := openTicket()
	request.Input = json.RawMessage(`{"title":7}`)
	_, err := c.Submit(t.Context(), request, 0)
	wantRefusal(t, err, fleet.Invalid, "action.input")
	_, err = c.Get(t.Context(), request.ID, 0)
	wantRefusal(t, err, fleet.NotFound, action.CodeUnknown)
	wipe := openTicket()
	wipe.Capability, wipe.Input = must(fleet.ParseCapabilityID("desk:wipe")), json.RawMessage(`{}`)
	_, err = c.Submit(t.Context(), wipe, 0)
	wantRefusal(t, err, fleet.Denied, "policy.denied")
	_, err = stranger.Submit(t.Context(), openTicket(), 0)
	wantRefusal(t, err, fleet.NotFound, "catalog.capability")
	_, err = d.client(t, "no such token").Get(t.Context(), request.ID, 0)
	wantRefusal(t, err, fleet.Denied, "auth.credential")
	if status, _ := post(t, d.address+"/aip/v1/actions", "", `{}`); status != http.StatusUnauthorized {
		t.Errorf("no credential: %d", status)
	}
}

func lostAnswer(t *testing.T, s *small, c *client.Client) {
	s.loseAnswers(true)
	request := openTicket()
	got := submit(t, c, request)
	if got.State != action.Uncertain || got.Problem == nil || got.Problem.Kind != fleet.Unknown {
		t.Fatalf("got %s (%+v), want uncertain", got.State, got.Problem)
	}
	s.loseAnswers(false)
	deadline := time.Now().Add(patience)
	for got.State != action.Completed {
		if time.Now().After(deadline) {
			t.Fatalf("it stays %s", got.State)
		}
		var err error
		if got, err = c.Get(t.Context(), request.ID, 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if s.product.called(request.ID) != 1 {
		t.Fatal("it was called more than once")
	}
}

func catalog(t *testing.T, c, stranger *client.Client) {
	page, err := c.Capabilities(t.Context(), registry.CatalogQuery{})
	if err != nil || len(page.Items) != 1 || page.Items[0].Definition.ID.String() != "desk:open" {
		t.Fatalf("acme sees %+v, %v; want what its policy allows", page.Items, err)
	}
	page, err = stranger.Capabilities(t.Context(), registry.CatalogQuery{})
	if err != nil || len(page.Items) != 0 {
		t.Fatalf("globex sees %+v, %v", page.Items, err)
	}
	ready, err := c.Ready(t.Context())
	if err != nil || !ready.Ready || len(ready.Parts) < 2 {
		t.Fatalf("ready %+v, %v", ready, err)
	}
}

func metrics(t *testing.T, d daemon) {
	response, err := http.Get(d.address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if !strings.Contains(text, `aipd_attempt_seconds_count{outcome="completed"}`) {
		t.Fatal("no attempt was counted")
	}
	for _, secret := range []string{"acme", "globex", "act_", "crepl_", "alice"} {
		if strings.Contains(text, secret) {
			t.Errorf("the metrics name %q", secret)
		}
	}
}

// refused starts aipd serve, which must not start.
func (s *small) refused(o Options) error {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	err := o.run(ctx, process{out: io.Discard, log: slog.New(slog.DiscardHandler), getenv: func(string) string { return "" }, now: time.Now})
	if err == nil {
		s.t.Fatal("it started")
	}
	return err
}

func TestServe_G20_RefusesOtherRolesAndSchemas(t *testing.T) {
	s := newSmall(t)
	s.migrated()
	cluster := pgclustertest.Shared(t)
	config := "listen: 127.0.0.1:0\nidentity_key: aipd.pem\nprincipal: g\nauth: {tokens_file: tokens.yaml}\npolicy_file: policy.yaml\ndatabase_url: "
	name := s.url[strings.LastIndex(s.url, "/")+1:]
	if i := strings.IndexByte(name, '?'); i >= 0 {
		name = name[:i]
	}
	for what, url := range map[string]string{
		"the owner":              cluster.DSN("aip_migrate", password, name),
		"a superuser":            cluster.AdminDSN(name),
		"another role":           cluster.DSN("aip_control", password, name),
		"an unmigrated database": cluster.DSN("aip_data", password, pgclustertest.NewDatabase(t, "")),
	} {
		s.write("bad.yaml", config+`"`+url+`"`+"\n")
		err := s.refused(Options{ConfigFile: filepath.Join(s.dir, "bad.yaml")})
		if fleet.CodeOf(err) == "" || strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v", what, err)
		}
		t.Logf("%s: %s: %v", what, fleet.CodeOf(err), err)
	}
}

func TestServe_G33_AMemoryRegistryTakesOnlySignedHarmlessPublications(t *testing.T) {
	s := newSmall(t)
	config := "listen: 127.0.0.1:0\nregistry: memory\npublication: publication.json\noperators: operators.json\nidentity_key: aipd.pem\nprincipal: g\nauth: {tokens_file: tokens.yaml}\npolicy_file: policy.yaml\n"
	s.write("g.yaml", config)
	o := Options{ConfigFile: filepath.Join(s.dir, "g.yaml")}
	s.publish(1, s.changeSet())
	wantRefusal(t, s.refused(o), fleet.Denied, "aipd.memory_mutation")
	forged := must(registry.SealPublication(registry.SignedPublication{Number: 2, ChangeSet: s.changeSet()}, s.aipd, s.aipd.DID(), time.Now()))
	s.write("publication.json", string(forged))
	wantRefusal(t, s.refused(o), fleet.Denied, "envelope.key")
	other := must(registry.SealPublication(registry.SignedPublication{Number: 2, ChangeSet: s.changeSet()}, s.operator, s.peer.DID(), time.Now()))
	s.write("publication.json", string(other))
	wantRefusal(t, s.refused(o), fleet.Denied, "envelope.audience")
	s.write("g.yaml", config+"allow_mutations_unsafe: true\n")
	wantRefusal(t, s.refused(o), fleet.Invalid, codeConfig)
}
