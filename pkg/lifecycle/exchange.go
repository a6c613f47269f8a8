package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// exchangeTimeout bounds one exchange.
const exchangeTimeout = 5 * time.Second

// request is one signed control message. It may be sent more than once.
type request struct {
	id      fleet.MessageID
	bytes   []byte
	askedAt time.Time // before the first send: leases count from here (G24)
	ready   bool      // what it says of the host
}

func (c *Client) request(doc protocol.Document) (*request, error) {
	now := c.cfg.Now()
	r := &request{id: fleet.NewMessageID(now), askedAt: now}
	env, err := protocol.NewMessage(doc, r.id, now)
	if err != nil {
		return nil, err
	}
	r.bytes, err = envelope.Seal(env, envelope.Lifecycle, c.cfg.Signer, c.cfg.Peer)
	return r, err
}

// exchange sends a request and opens its answer.
func (c *Client) exchange(ctx context.Context, r *request) (protocol.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	reply, err := c.cfg.Sender.Post(ctx, c.cfg.Server, protocol.PathControl, r.bytes)
	if err != nil {
		return protocol.Lease{}, err
	}
	opened, err := envelope.Open(reply.Body, envelope.Expect{
		Purpose: envelope.LifecycleResponse, Audience: c.cfg.Signer.DID(), Peer: c.cfg.Peer, Now: c.cfg.Now(),
		Limits: envelope.Limits{MaxBytes: protocol.MaxControlBytes, SafeIntegers: true},
	})
	if err != nil {
		return protocol.Lease{}, badReply(err.Error())
	}
	if opened.Envelope().InResponseTo != r.id {
		return protocol.Lease{}, badReply("it answers another request")
	}
	if opened.BodyKey() == (protocol.Error{}).BodyKey() {
		return protocol.Lease{}, refusalOf(opened)
	}
	granted, err := protocol.Read[protocol.Lease](opened)
	if err == nil && granted.Replica != c.cfg.Register.Replica {
		err = badReply("it is about another replica")
	}
	return granted, err
}

func badReply(why string) error {
	return fleet.Errorf(fleet.Unknown, "lifecycle.reply", "the lifecycle service's answer is not acceptable").Because("%s", why)
}

// refusedError marks a signed refusal: the request was read and had no effect, so
// that asking again needs a new request.
type refusedError struct{ refusal *fleet.Error }

// Error implements error.
func (e *refusedError) Error() string { return e.refusal.Error() }

// Unwrap gives the service's error.
func (e *refusedError) Unwrap() error { return e.refusal }

// refusalOf rebuilds the service's error from its signed answer.
func refusalOf(o envelope.Opened) error {
	doc, err := protocol.Read[protocol.Error](o)
	if err != nil {
		return badReply(err.Error())
	}
	kind := fleet.Internal
	for _, k := range fleet.Kinds() {
		if k.Info().Code == doc.Code {
			kind = k
		}
	}
	var details struct {
		Code string `json:"code"`
		Next string `json:"next"`
	}
	_ = json.Unmarshal(doc.Details, &details)
	return &refusedError{fleet.Errorf(kind, details.Code, "%s", fleet.Printable(doc.Message, 500)).Advise("%s", fleet.Printable(details.Next, 300))}
}

// Beat renews the lease once. Run does it in time; a host calls it as well when
// what it has to report cannot wait.
func (c *Client) Beat(ctx context.Context) error {
	report := c.cfg.Report(ctx)
	c.talk.Lock()
	defer c.talk.Unlock()
	c.mu.Lock()
	c.sequence++
	doc := protocol.Heartbeat{
		Replica: c.cfg.Register.Replica, Epoch: c.standing.Epoch, Sequence: c.sequence,
		InFlight: report.InFlight, Ready: report.Ready, Draining: report.Draining,
	}
	c.mu.Unlock()
	r, err := c.request(doc)
	if err != nil {
		return err
	}
	granted, err := c.exchange(ctx, r)
	if err != nil {
		return err
	}
	if granted.Status == fleet.ReplicaOffline || granted.Epoch != doc.Epoch {
		return fleet.Errorf(fleet.LeaseLost, "lease.epoch", "the lease is over")
	}
	c.mu.Lock()
	c.ready = report.Ready
	c.mu.Unlock()
	c.granted(granted, r.askedAt)
	return nil
}

// Ready tells the service at once that the host is ready, if it was told otherwise
// last: nothing is routed here before.
func (c *Client) Ready(ctx context.Context) error {
	c.mu.Lock()
	told := c.ready
	c.mu.Unlock()
	if told {
		return nil
	}
	return c.Beat(ctx)
}

// Drain tells the service that this host takes no new work. The lease is kept.
func (c *Client) Drain(ctx context.Context, reason string) error {
	return c.leave(ctx, func(s Standing, sequence uint64) protocol.Document {
		return protocol.Drain{Replica: c.cfg.Register.Replica, Epoch: s.Epoch, Sequence: sequence, Reason: reason}
	})
}

// Offline gives the lease back. Nothing is trusted afterwards.
func (c *Client) Offline(ctx context.Context, reason string) error {
	err := c.leave(ctx, func(s Standing, sequence uint64) protocol.Document {
		return protocol.Offline{Replica: c.cfg.Register.Replica, Epoch: s.Epoch, Sequence: sequence, Reason: reason}
	})
	c.lost(fleet.Errorf(fleet.LeaseLost, "lease.offline", "the lease was given back"))
	return err
}

// leave sends one signed departure, and the same bytes again until it is answered
// or ctx ends. A host without a lease has nothing to leave.
func (c *Client) leave(ctx context.Context, doc func(Standing, uint64) protocol.Document) error {
	c.talk.Lock()
	defer c.talk.Unlock()
	c.mu.Lock()
	standing, sequence := c.standing, max(c.sequence, 1)
	c.mu.Unlock()
	if standing.Epoch == 0 {
		return nil
	}
	r, err := c.request(doc(standing, sequence))
	if err != nil {
		return err
	}
	for {
		_, err := c.exchange(ctx, r)
		var sent *peer.SendError
		if err == nil || !errors.As(err, &sent) {
			return err
		}
		if !c.sleep(ctx, firstPause) {
			return err
		}
	}
}
