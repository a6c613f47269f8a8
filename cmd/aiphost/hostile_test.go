package main

import (
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/peer/hostiletest"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// TestHost_G40_HostileRequestsAndDocuments sends raw requests and hostile JSON, signed
// bytes as their base, to a real host: nothing is executed, and it serves on.
func TestHost_G40_HostileRequestsAndDocuments(t *testing.T) {
	b := newBed(t)
	p := b.spawn().ready()
	order := string(b.order(newID(), "never"))
	surface := hostiletest.Surface{Addr: strings.TrimPrefix(b.endpoint, "http://"), Path: protocol.PathMessages, Body: strings.Replace(order, "never", "other", 1)}
	hostiletest.Requests(t, surface)
	hostiletest.Post(t, surface, hostiletest.Documents(order, "message_id"))
	if n := b.effects(); n != 0 {
		t.Errorf("%d effects", n)
	}
	if _, err := b.post([]byte(order)); err != nil || b.effects() != 1 {
		t.Errorf("the genuine message afterwards: %v, %d effects", err, b.effects())
	}
	if log := p.logText(); strings.Contains(log, "panic") || strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("the host failed:\n%s", log)
	}
}
