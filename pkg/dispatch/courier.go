package dispatch

import (
	"context"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Sender posts one message to a peer; *peer.Client is one.
type Sender interface {
	Post(ctx context.Context, endpoint peer.Endpoint, path string, body []byte) (peer.Reply, error)
}

// Courier signs messages to pinned hosts and opens their answers. It holds no
// state; its methods may be used concurrently.
type Courier struct {
	Sender    Sender
	Signer    envelope.Signer
	Principal string // who this gateway is, as a principal id
	Now       func() time.Time
	// Pauses are the waits before the same signed message is sent again after a
	// transport failure; the host answers an exact repeat from its journal.
	Pauses []time.Duration
	// LastSendUnsafe plants a defect, to prove that a suite would find it: only the
	// last send counts, whatever earlier ones may have done. No configuration sets it.
	LastSendUnsafe bool
}

// DefaultPauses bound how long a lost answer is waited for before the attempt is
// called unknown and left to reconciliation.
func DefaultPauses() []time.Duration {
	return []time.Duration{200 * time.Millisecond, 800 * time.Millisecond}
}

// statusTimeout bounds one status query or cancel (G43: it needs no reservation).
const statusTimeout = 10 * time.Second

// Codes of what went wrong between gateway and host.
const (
	CodeNeverSent = "dispatch.never_sent" // no byte of any send was written
	CodeNoAnswer  = "dispatch.no_answer"  // written, and no answer came
	CodeBadAnswer = "dispatch.bad_answer" // unsigned, invalid, or about something else
	CodeMessage   = "dispatch.message"    // the message could not be made
	CodeNotEnded  = "dispatch.not_ended"  // a host does not agree that an action ended
)

// Sent is what every send of one signed message brought back.
type Sent struct {
	Answer  *Answer // verified; nil if there is none
	Sends   int     // how often it was posted
	Written bool    // a byte of one of them may have been written
	Fault   bool    // an answer came and was unsigned, invalid or of another message
	Err     error   // why there is no answer
}

// Dispatch sends the action to the assignment's host and waits for its answer
// until ctx ends. decision is an operator's signed document, or nil.
func (c *Courier) Dispatch(ctx context.Context, r action.Record, a fleet.Assignment, decision []byte) Sent {
	route := protocol.CoordinatesOf(a, mode(r), r.Deadline)
	route.Decision = decision
	m, err := c.seal(actionOf(r, c.Now()), a.Route, route, r.IdempotencyKey)
	if err != nil {
		return Sent{Err: err}
	}
	return c.send(ctx, m)
}

func mode(r action.Record) protocol.Mode {
	if m := protocol.Mode(r.Mode); m.Valid() {
		return m
	}
	return protocol.ModeSync
}

func actionOf(r action.Record, now time.Time) protocol.Action {
	return protocol.Action{
		ID: r.ID, Capability: r.Capability, Input: r.Input, Mode: mode(r), IdempotencyKey: r.IdempotencyKey,
		TimeoutMS: uint64(max(r.Deadline.Sub(now).Milliseconds(), 1)),
	}
}

// message is a signed message and what its answer must fit.
type message struct {
	id       fleet.MessageID
	action   fleet.ActionID
	endpoint peer.Endpoint
	peer     envelope.DID
	bytes    []byte
	ack      bool // an acknowledgement is an answer to it
}

func (c *Courier) seal(doc protocol.Document, r fleet.RouteAssignment, route protocol.RouteCoordinates, key string) (message, error) {
	m := message{id: fleet.NewMessageID(c.Now()), action: r.Action}
	var err error
	if m.endpoint, err = peer.ParseEndpoint(r.Endpoint); err != nil {
		return m, err
	}
	if m.peer, err = envelope.ParseDID(r.Peer.DID); err != nil {
		return m, err
	}
	env, err := protocol.NewMessage(doc, m.id, c.Now())
	if err != nil {
		return m, err
	}
	raw, err := route.Raw()
	if err != nil {
		return m, err
	}
	env.IdempotencyKey = key
	env.From = &protocol.Principal{ID: c.Principal, Kind: "service", DID: c.Signer.DID()}
	env.To = &protocol.Principal{ID: r.Peer.PrincipalID, Kind: r.Peer.PrincipalKind, DID: m.peer, TrustDomain: r.Peer.TrustDomain}
	env.Security = &envelope.Security{Route: raw}
	m.bytes, err = envelope.Seal(env, envelope.Dispatch, c.Signer, m.peer)
	return m, err
}

// send posts the message, and the same bytes again after transport failures.
func (c *Courier) send(ctx context.Context, m message) Sent {
	var sent Sent
	for {
		sent.Sends++
		reply, err := c.Sender.Post(ctx, m.endpoint, protocol.PathMessages, m.bytes)
		if err == nil {
			sent.Written = true
			sent.Answer, sent.Err = c.open(m, reply)
			sent.Fault = sent.Err != nil
			return sent
		}
		sent.Written = sent.Written && !c.LastSendUnsafe || peer.Written(err)
		sent.Err = err
		if sent.Sends > len(c.Pauses) || !pause(ctx, c.Pauses[sent.Sends-1]) {
			return sent
		}
	}
}

// pause waits for d; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Status asks the pinned host what it knows of the action. It depends on nothing
// but the route (G43). Without a verified answer the error says why.
func (c *Courier) Status(ctx context.Context, record registry.RouteRecord) (action.Finding, error) {
	return c.ask(ctx, protocol.ActionStatusRequest{ActionID: record.Route.Action}, record)
}

// Cancel asks the pinned host to stop the action, and answers with its evidence.
func (c *Courier) Cancel(ctx context.Context, record registry.RouteRecord, reason string) (action.Finding, error) {
	return c.ask(ctx, protocol.Cancel{ActionID: record.Route.Action, Reason: reason}, record)
}

// Settled tells the pinned host that central is done with the action, so that it need
// not keep the result beyond its own retention. It depends on nothing but the route
// (G43). Nil means that the host has taken it; saying it again is harmless.
func (c *Courier) Settled(ctx context.Context, record registry.RouteRecord) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	a := record.Assignment()
	m, err := c.seal(protocol.ActionSettled{ActionID: a.Route.Action}, a.Route, protocol.CoordinatesOf(a, "", a.Attempt.Deadline), "")
	if err != nil {
		return err
	}
	m.ack = true
	sent := c.send(ctx, m)
	switch {
	case sent.Answer == nil:
		return sent.Err
	case sent.Answer.Ack != nil:
		return nil
	}
	f, err := sent.Answer.finding(m.peer)
	if err != nil {
		return err
	}
	return fleet.Errorf(fleet.Conflict, CodeNotEnded, "the host does not know the end of action %s", a.Route.Action).Because("it says %s", f.State)
}

func (c *Courier) ask(ctx context.Context, doc protocol.Document, record registry.RouteRecord) (action.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	a := record.Assignment()
	m, err := c.seal(doc, a.Route, protocol.CoordinatesOf(a, "", a.Attempt.Deadline), "")
	if err != nil {
		return action.Finding{}, err
	}
	sent := c.send(ctx, m)
	if sent.Answer == nil {
		return action.Finding{}, sent.Err
	}
	return sent.Answer.finding(m.peer)
}
