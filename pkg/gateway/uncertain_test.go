package gateway

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fairness"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// TestMetrics_G38_UncertainAttemptsShowTheirAge, and are not shown while nobody knows.
func TestMetrics_G38_UncertainAttemptsShowTheirAge(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	asked, away := 0, false
	m := NewMetrics(func() time.Time { return now }, func() fairness.Load { return fairness.Load{} })
	m.WatchUncertain(func(context.Context) (registry.Status, error) {
		asked++
		if away {
			return registry.Status{}, errors.New("away")
		}
		return registry.Status{
			Uncertain: map[fleet.ReconciliationState]int{fleet.ReconcileOpen: 3, fleet.ReconcileResolved: 9}, OldestUncertain: 90 * time.Second,
		}, nil
	})
	scrape := func() string {
		out := httptest.NewRecorder()
		m.handler()(out, httptest.NewRequest("GET", "/metrics", nil))
		return out.Body.String()
	}
	for range 2 {
		text := scrape()
		for _, line := range []string{`aipd_uncertain_attempts{state="open"} 3`, `aipd_uncertain_attempts{state="operator"} 0`, "aipd_uncertain_oldest_seconds 90"} {
			if !strings.Contains(text, line) {
				t.Errorf("the metrics lack %s", line)
			}
		}
	}
	if asked != 1 {
		t.Errorf("the registry was asked %d times for two scrapes of one moment", asked)
	}
	now, away = now.Add(time.Minute), true
	if text := scrape(); strings.Contains(text, "aipd_uncertain_oldest_seconds ") {
		t.Error("an old age is shown while the registry is away")
	}
}
