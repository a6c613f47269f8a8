package serve

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/client"
	"github.com/aipfleet/aipfleet/pkg/peer/hostiletest"
)

// hostile sends raw requests and hostile JSON with a genuine credential: nothing of it
// becomes an action.
func hostile(t *testing.T, s *small, d daemon) {
	c := d.client(t, "token-acme")
	before := actions(t, c)
	request := openTicket()
	raw, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	valid := string(raw)
	surface := hostiletest.Surface{Addr: strings.TrimPrefix(d.address, "http://"), Path: "/aip/v1/actions", Body: `{"action_id":7}`, Token: "token-acme"}
	hostiletest.Requests(t, surface)
	hostiletest.Post(t, surface, hostiletest.Documents(valid, "capability_id"))
	if after := actions(t, c); after != before {
		t.Errorf("%d actions were made of it", after-before)
	}
	if n := s.product.called(request.ID); n != 0 {
		t.Errorf("the product was called %d times", n)
	}
}

func actions(t *testing.T, c *client.Client) int {
	t.Helper()
	page, err := c.List(t.Context(), client.ListQuery{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Actions)
}
