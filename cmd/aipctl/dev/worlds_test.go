package dev_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// ask is one raw request of a tenant and everything of its answer that a client sees,
// but for the date.
func ask(t *testing.T, tenant, method, path, body string) string {
	t.Helper()
	token, err := os.ReadFile(live.Place().Secret(tenant + ".token"))
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(bounded(t), method, live.AipdURL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	response.Header.Del("Date")
	var head bytes.Buffer
	if err := response.Header.Write(&head); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d\n%s\n%s", response.StatusCode, head.String(), said)
}

// TestFleet_G18_TwoWorlds asks the same questions in a world without another tenant's
// actions and in one with them, its ids among the questions: every answer is the same,
// byte for byte.
func TestFleet_G18_TwoWorlds(t *testing.T) {
	done, running := ticket(t, "of acme"), ticket(t, "of acme too")
	own := submit(t, globex, ticket(t, "of globex"), limit)
	type question struct{ method, path, body string }
	questions := []question{
		{"GET", "/aip/v1/capabilities", ""}, {"GET", "/aip/v1/actions", ""}, {"GET", "/aip/v1/actions?limit=1", ""},
		{"GET", "/aip/v1/actions/" + own.ID.String(), ""}, {"GET", "/aip/v1/actions/" + own.ID.String() + "/result", ""},
		{"GET", "/aip/v1/actions/" + own.ID.String() + "/route", ""}, {"GET", "/aip/v1/manifest", ""},
	}
	foreign := len(questions) // from here on about what another tenant will have
	for _, id := range []fleet.ActionID{done.ID, running.ID} {
		at := "/aip/v1/actions/" + id.String()
		questions = append(questions, question{"GET", at, ""}, question{"GET", at + "/result", ""}, question{"GET", at + "/route", ""},
			question{"POST", at + "/cancel", `{"reason":"x"}`})
	}
	answers := func() []string {
		var all []string
		for _, q := range questions {
			all = append(all, ask(t, globex, q.method, q.path, q.body))
		}
		return all
	}
	var without []string
	until(t, "globex's own action is at rest", func(ctx context.Context) (bool, error) {
		before := answers()
		if err := app.Pause(ctx, 500*time.Millisecond); err != nil {
			return false, err
		}
		without = answers()
		return slices.Equal(before, without), nil
	})
	submit(t, acme, done, limit)
	submit(t, acme, running, 0)
	with := answers()
	for i, q := range questions {
		if with[i] != without[i] {
			t.Errorf("%s %s\nwithout acme's actions: %s\nwith them: %s", q.method, q.path, without[i], with[i])
		}
		if i >= foreign && ask(t, acme, q.method, q.path, q.body) == with[i] {
			t.Errorf("%s %s is the same for the action's own tenant: the question asks nothing", q.method, q.path)
		}
	}
}
