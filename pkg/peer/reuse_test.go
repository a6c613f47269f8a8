package peer_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/peer"
)

// TestPost_KeepsAConnectionForEachCallOfACrowd: a crowd of calls to one host
// dials once, and the next crowd not at all: the less is dialled, the less can fail
// before anything was written.
func TestPost_KeepsAConnectionForEachCallOfACrowd(t *testing.T) {
	const crowd = 100
	var dialled atomic.Int64
	var here sync.WaitGroup // everybody of a crowd is at the server before anybody is answered
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		here.Done()
		here.Wait()
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			dialled.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	client, to := newClient(t, peer.Config{MaxIdlePerPeer: crowd}), endpoint(t, server.URL)
	for range 3 {
		here.Add(crowd)
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() {
				if _, err := client.Post(bounded(t), to, path, []byte("{}")); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	if got := dialled.Load(); got > 2*crowd {
		t.Errorf("%d connections were made for three crowds of %d", got, crowd)
	}
}
