package host

import (
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// errand is what a message asks for.
type errand string

const (
	dispatch errand = "dispatch"
	status   errand = "status"
	cancel   errand = "cancel"
	settled  errand = "settled"
)

// reply is whom an answer is for and what it answers.
type reply struct {
	to          envelope.DID
	message     fleet.MessageID
	correlation string
}

// delivery is one message on its way through the checks.
type delivery struct {
	reply
	errand errand
	digest fleet.Digest // of the message
	route  protocol.RouteCoordinates
	action protocol.Action // of a dispatch
	input  fleet.Digest    // of a dispatch
	undoes fleet.ActionID  // of a dispatch that compensates
	slot   bool            // a slot is taken for it
}

// about names the attempt that a refusal of the delivery is about.
func (d *delivery) about() protocol.HostRefusal {
	return protocol.HostRefusal{Action: d.route.Action, Fence: d.route.Fence.Number}
}

// readForm is the part of check 1 that needs no key: size and content type.
func readForm(r *http.Request) ([]byte, *refusal) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != protocol.ContentType {
		return nil, refuse(CodeMalformed, "the content type is not "+protocol.ContentType)
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, protocol.MaxMessageBytes+1))
	if err != nil {
		return nil, refuse(CodeMalformed, "the body cannot be read")
	}
	if len(data) > protocol.MaxMessageBytes {
		return nil, refuse(CodeMalformed, "the message is above 4 MiB")
	}
	return data, nil
}

// open is the rest of check 1 and check 2: strict parse, schema, key, signature,
// purpose, audience, freshness.
func (h *Host) open(data []byte) (envelope.Opened, *refusal) {
	opened, err := envelope.Open(data, envelope.Expect{
		Purpose: envelope.Dispatch, Audience: h.cfg.Signer.DID(), Keys: h.cfg.Gateways, Now: h.cfg.Now(),
		Limits:       envelope.Limits{MaxBytes: protocol.MaxMessageBytes},
		MessageTypes: []string{protocol.TypeAction, protocol.TypeActionStatusRequest, protocol.TypeCancel, protocol.TypeActionSettled},
	})
	if err == nil {
		return opened, nil
	}
	switch fleet.CodeOf(err) {
	case envelope.CodeSize, envelope.CodeMalformed, envelope.CodeSchema:
		return opened, refuse(CodeMalformed, reason(err))
	case envelope.CodeStale:
		// An earlier copy may have been taken while it was fresh.
		return opened, &refusal{code: CodeSignature, why: reason(err), class: protocol.ClassUnknown}
	}
	return opened, refuse(CodeSignature, reason(err))
}

func reason(err error) string {
	var e *fleet.Error
	if errors.As(err, &e) && e.Why != "" {
		return e.Why
	}
	return err.Error()
}

// read is check 1 on what is inside: the document and its coordinates.
func read(o envelope.Opened) (*delivery, *refusal) {
	env := o.Envelope()
	d := &delivery{
		reply:  reply{to: o.Signer(), message: env.MessageID, correlation: env.CorrelationID},
		digest: o.Digest(),
	}
	route, err := protocol.ReadRoute(o.Route())
	if err != nil {
		return d, refuse(CodeMalformed, reason(err))
	}
	d.route = route
	if err := d.readDocument(o); err != nil {
		return d, refuse(CodeMalformed, reason(err))
	}
	return d, nil
}

func (d *delivery) readDocument(o envelope.Opened) error {
	switch o.BodyKey() {
	case protocol.ActionStatusRequest{}.BodyKey():
		d.errand = status
		asked, err := protocol.Read[protocol.ActionStatusRequest](o)
		return errors.Join(err, d.route.ValidatePinned(), d.sameAction(asked.ActionID))
	case protocol.Cancel{}.BodyKey():
		d.errand = cancel
		asked, err := protocol.Read[protocol.Cancel](o)
		return errors.Join(err, d.route.ValidatePinned(), d.sameAction(asked.ActionID))
	}
	if o.BodyKey() == (protocol.ActionSettled{}).BodyKey() {
		d.errand = settled
		asked, err := protocol.Read[protocol.ActionSettled](o)
		return errors.Join(err, d.route.ValidatePinned(), d.sameAction(asked.ActionID))
	}
	d.errand = dispatch
	action, err := protocol.Read[protocol.Action](o)
	if err == nil {
		err = errors.Join(d.route.Validate(), d.sameAction(action.ID))
	}
	if err == nil && action.Capability != d.route.Capability {
		err = fleet.Invalidf(CodeMalformed, "the action and the route name different capabilities")
	}
	if err != nil {
		return err
	}
	d.action = action
	d.input, err = action.InputDigest()
	return err
}

func (d *delivery) sameAction(id fleet.ActionID) error {
	if id == d.route.Action {
		return nil
	}
	return fleet.Invalidf(CodeMalformed, "the document and the route name different actions")
}

// checkRoute is check 3: the pinned coordinates are this host's own.
func (h *Host) checkRoute(d *delivery) *refusal {
	own, r := h.cfg.Identity, d.route
	pairs := []struct {
		name string
		same bool
	}{
		{"tenant", r.Tenant == own.Tenant},
		{"instance", r.Instance == own.Instance},
		{"replica", r.Replica == own.Replica},
		{"version", r.Version == own.Version},
		{"manifest digest", r.ManifestDigest == own.ManifestDigest},
		{"artifact digest", r.ArtifactDigest == own.ArtifactDigest},
	}
	for _, p := range pairs {
		if !p.same {
			return refuse(CodeRouteMismatch, "the "+p.name+" is not this host's")
		}
	}
	return nil
}
