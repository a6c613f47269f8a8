package gateway

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fairness"
)

// TestMetrics_G31_ShowWhatIsWaitedFor: who must raise a bound sees whether callers wait
// for the database or for their turn.
func TestMetrics_G31_ShowWhatIsWaitedFor(t *testing.T) {
	m := NewMetrics(time.Now, func() fairness.Load { return fairness.Load{Queued: 5} })
	m.WatchPool(func() PoolUse { return PoolUse{InUse: 31, Max: 32, Waits: 1_234_567} })
	out := httptest.NewRecorder()
	m.handler()(out, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		"aipd_actions_queued 5", "aipd_database_connections_in_use 31", "aipd_database_connections_max 32", "aipd_database_connection_waits_total 1.234567e+06",
	} {
		if !strings.Contains(out.Body.String(), line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
}
