package sim

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/lifecycle"
	"github.com/aipfleet/aipfleet/pkg/peer"
)

// control is the lifecycle service, which may be away for a while.
type control struct {
	w        *world
	endpoint peer.Endpoint
	signer   envelope.Signer
	handler  http.Handler
	away     []window
}

func newControl(w *world) *control {
	c := &control{
		w: w, endpoint: must(peer.ParseEndpoint("http://127.0.0.1:7100")), signer: signerOf(5),
		away: w.windows(1, 5*time.Second, 30*time.Second, "control", ""),
	}
	c.handler = must(lifecycle.NewServer(lifecycle.ServerConfig{Fleet: w.registry, Signer: c.signer, Now: time.Now, TTL: leaseTTL})).Handler()
	return c
}

// noReplyRate is of lost answers to control messages.
const noReplyRate = 0.05

// take carries a control message there and its answer back.
func (c *control) take(ctx context.Context, from *life, endpoint, path string, body []byte) (peer.Reply, error) {
	n := from.next("control")
	way := c.w.between(time.Millisecond, 30*time.Millisecond, "control way", from.name, n)
	if !sleep(ctx, way) || c.w.stormy() && within(c.away, c.w.elapsed()) {
		if ctx.Err() == nil {
			c.w.fault(controlAway, from.name)
		}
		return peer.Reply{}, unreachable(ctx.Err())
	}
	out := &recorder{header: http.Header{}}
	c.handler.ServeHTTP(out, request(context.WithoutCancel(ctx), parcel{path: path, body: body}))
	if c.w.stormy() && c.w.chance(noReplyRate, "control reply", from.name, n) {
		c.w.fault(controlNoReply, from.name)
		return peer.Reply{}, interrupted()
	}
	if !sleep(ctx, way+time.Microsecond) {
		return peer.Reply{}, interrupted()
	}
	return peer.Reply{Status: out.status, ContentType: out.header.Get("Content-Type"), Body: bytes.Clone(out.body.Bytes())}, nil
}
