package host

import (
	"encoding/json"
	"net/http"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// answer is what goes back over HTTP.
type answer struct {
	status int
	body   []byte
	signed bool
}

// storedResult is a result document as the journal keeps it: it travels byte for
// byte (G27).
type storedResult struct{ raw json.RawMessage }

func (storedResult) BodyKey() string                { return protocol.ActionResult{}.BodyKey() }
func (storedResult) MessageType() string            { return protocol.TypeActionResult }
func (storedResult) Validate() error                { return nil }
func (s storedResult) MarshalJSON() ([]byte, error) { return s.raw, nil }

// sign makes a signed answer.
func (h *Host) sign(to reply, status int, doc protocol.Document) (answer, error) {
	now := h.cfg.Now()
	env, err := protocol.NewMessage(doc, fleet.NewMessageID(now), now)
	if err != nil {
		return answer{}, err
	}
	env.InResponseTo, env.CorrelationID = to.message, to.correlation
	body, err := envelope.Seal(env, envelope.Response, h.cfg.Signer, to.to)
	return answer{status: status, body: body, signed: true}, err
}

// refusalAnswer signs a refusal of a message that was opened.
func (h *Host) refusalAnswer(d *delivery, r *refusal) (answer, error) {
	return h.sign(d.reply, ruleOf(r.code).status, r.document(d.about()))
}

// refusalUnverified answers a message whose signature proves nothing: signed when
// the bytes name somebody to answer, and bound to exactly these bytes.
func (h *Host) refusalUnverified(data []byte, r *refusal) answer {
	doc := r.document(protocol.HostRefusal{Message: fleet.DigestBytes(data)})
	status := ruleOf(r.code).status
	if to, ok := claimed(data); ok {
		if a, err := h.sign(to, status, doc); err == nil {
			return a
		}
	}
	body, _ := json.Marshal(map[string]any{doc.BodyKey(): doc})
	return answer{status: status, body: body}
}

// claimed reads who says to have sent the bytes, without believing it.
func claimed(data []byte) (reply, bool) {
	v, err := envelope.ParseStrict(data, envelope.Limits{MaxBytes: protocol.MaxMessageBytes})
	if err != nil {
		return reply{}, false
	}
	signer, _ := v.Get("security", "signer")
	id, _ := v.Get("message_id")
	did, err := envelope.ParseDID(signer.Text())
	if err != nil {
		return reply{}, false
	}
	message, err := fleet.ParseMessageID(id.Text())
	return reply{to: did, message: message}, err == nil
}

// failureAnswer says that the host itself failed. It is not signed: it proves
// nothing about the action.
func failureAnswer() answer {
	body, _ := json.Marshal(map[string]any{"error": map[string]string{
		"code": fleet.Internal.Info().Code, "category": fleet.Internal.Info().Category, "message": "the host failed",
	}})
	return answer{status: http.StatusInternalServerError, body: body}
}

// recordAnswer answers from what the journal says of the action.
func (h *Host) recordAnswer(d *delivery, r journal.Record) (answer, error) {
	if d.errand != dispatch {
		return h.statusAnswer(d, r)
	}
	switch r.State {
	case journal.Result, journal.Cancelled:
		return h.sign(d.reply, http.StatusOK, storedResult{r.Document})
	case journal.NotStarted:
		return h.refusalAnswer(d, storedRefusal(r))
	}
	return h.statusAnswer(d, r)
}

// storedRefusal is what a closed fence is told, again.
func storedRefusal(r journal.Record) *refusal {
	if r.Refusal == nil {
		return refuse(CodeNotReady, "the host was restarted before the call")
	}
	if known := ruleOf(r.Refusal.Code); known.check == r.Refusal.Check && known.class == protocol.ClassNotStarted {
		return refuse(r.Refusal.Code, r.Refusal.Why)
	}
	return refuse(CodeNotReady, r.Refusal.Why)
}

// statusAnswer says what the journal says. The caller has closed the fence before
// a not_started is signed.
func (h *Host) statusAnswer(d *delivery, r journal.Record) (answer, error) {
	doc := protocol.ActionStatus{
		ActionID: d.route.Action, Fence: max(r.Highest.Number, r.Closed), Journal: h.cfg.Journal.ID(), Evidence: r.Evidence,
	}
	switch r.State {
	case journal.Accepted, journal.Intent, journal.Planning, journal.Planned, journal.CallStarted:
		doc.State = protocol.StateRunning
	case journal.Cancelled:
		doc.State = protocol.StateCancelled
	case journal.NotStarted:
		doc.State, doc.Fence = protocol.StateNotStarted, r.Closed
	case journal.Result:
		doc.State, doc.Result = protocol.StateCompleted, &protocol.ActionResult{}
		if err := json.Unmarshal(r.Document, doc.Result); err != nil {
			return answer{}, err
		}
	default:
		doc.State = protocol.StateUnknown
	}
	return h.sign(d.reply, http.StatusOK, doc)
}
