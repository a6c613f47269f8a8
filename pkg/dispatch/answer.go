package dispatch

import (
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// Answer is a host's answer that opened: signed by the pinned peer, for this
// gateway, in response to this message, about this action. Exactly one of the
// documents is set.
type Answer struct {
	Result   *protocol.ActionResult
	Status   *protocol.ActionStatus
	Refusal  *protocol.HostRefusal
	Ack      *protocol.Ack // only where it was asked for
	Raw      []byte        // exact bytes of the result document, when there is one
	Text     string        // of a refusal, printable
	Evidence fleet.Digest
}

func (c *Courier) open(m message, reply peer.Reply) (*Answer, error) {
	opened, err := envelope.Open(reply.Body, envelope.Expect{
		Purpose: envelope.Response, Audience: c.Signer.DID(), Peer: m.peer, Now: c.Now(),
	})
	if err != nil {
		return nil, badAnswer("status %d: %s", reply.Status, err.Error())
	}
	if opened.Envelope().InResponseTo != m.id {
		return nil, badAnswer("it answers another message")
	}
	answer := &Answer{Evidence: opened.Digest()}
	if err := answer.read(opened, m.ack); err != nil {
		return nil, badAnswer("%s", err.Error())
	}
	if r := answer.Refusal; r != nil && !r.Message.IsZero() && r.Message != fleet.DigestBytes(m.bytes) {
		return nil, badAnswer("it refuses other bytes than were sent")
	}
	if about := answer.action(); about != m.action && (answer.Refusal == nil || !about.IsZero()) {
		return nil, badAnswer("it is about another action")
	}
	return answer, nil
}

func badAnswer(format string, args ...any) error {
	return fleet.Errorf(fleet.Unknown, CodeBadAnswer, "the host's answer is not acceptable").Because(format, args...)
}

func (a *Answer) read(o envelope.Opened, ack bool) error {
	if key := (protocol.Ack{}).BodyKey(); ack && o.BodyKey() == key {
		taken, err := protocol.Read[protocol.Ack](o)
		a.Ack = &taken
		return err
	}
	switch o.BodyKey() {
	case protocol.ActionResult{}.BodyKey():
		result, err := protocol.Read[protocol.ActionResult](o)
		if err == nil && !result.Status.Definite() {
			err = badAnswer("a result that is %s is not definite", result.Status)
		}
		a.Result, a.Raw = &result, o.Body()
		return err
	case protocol.ActionStatus{}.BodyKey():
		status, err := protocol.Read[protocol.ActionStatus](o)
		if err != nil {
			return err
		}
		a.Status = &status
		return a.rawResult(o)
	case protocol.Error{}.BodyKey():
		return a.readRefusal(o)
	}
	return badAnswer("its body is a %s", fleet.Printable(o.BodyKey(), 64))
}

// rawResult keeps the result's own bytes, so that what is stored is what was signed.
func (a *Answer) rawResult(o envelope.Opened) error {
	if a.Status.Result == nil {
		return nil
	}
	body, err := envelope.ParseStrict(o.Body(), envelope.Limits{})
	if err != nil {
		return err
	}
	raw, _ := body.Get("result")
	a.Raw = raw.Raw()
	return nil
}

func (a *Answer) readRefusal(o envelope.Opened) error {
	problem, err := protocol.Read[protocol.Error](o)
	if err != nil {
		return err
	}
	refusal, ok := problem.Refusal()
	if !ok {
		return badAnswer("its error names no check")
	}
	a.Refusal, a.Text = &refusal, fleet.Printable(problem.Message, 512)
	return nil
}

func (a *Answer) action() fleet.ActionID {
	switch {
	case a.Result != nil:
		return a.Result.ActionID
	case a.Status != nil:
		return a.Status.ActionID
	case a.Ack != nil:
		return a.Ack.ActionID
	}
	return a.Refusal.Action
}

// finding reads the answer to a status query or a cancel. A refusal of the query
// itself says nothing about the action.
func (a *Answer) finding(by envelope.DID) (action.Finding, error) {
	f := action.Finding{Evidence: a.Evidence, By: by.String()}
	switch {
	case a.Status != nil:
		s := a.Status
		f.State, f.Fence, f.Journal, f.Result = s.State, s.Fence, s.Journal, a.Raw
		f.Detail = fleet.Printable(string(s.Evidence), 256)
		if s.Result != nil {
			f.Status = s.Result.Status
		}
		return f, nil
	case a.Result != nil:
		f.State, f.Status, f.Result = protocol.StateCompleted, a.Result.Status, a.Raw
		return f, nil
	}
	return f, fleet.Errorf(fleet.Unavailable, a.Refusal.Code, "the host refused the question").Because("%s", a.Text)
}
