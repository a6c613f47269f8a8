package host

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/crashpoint"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// execution is one action being carried out. It belongs to the host: the message
// that began it may be long gone.
type execution struct {
	first  *delivery // the message that began it; its answer is stored with the outcome
	call   connector.Call
	undoes fleet.ActionID
	cancel context.CancelFunc
	// refusedBy is the code of the check that a call not made failed.
	refusedBy string
	done      chan struct{} // closed when the outcome is in the journal
	// stopPreparing ends what comes before the commit of a plan.
	stopPreparing context.CancelFunc
}

// begin journals the acceptance and starts the execution. It is called with the
// action locked and a slot taken, which the execution takes over.
func (h *Host) begin(ctx context.Context, d *delivery) (verdict, error) {
	now := h.cfg.Now()
	accepted := journal.Acceptance{
		Action: d.route.Action, Capability: d.route.Capability, Tenant: d.route.Tenant, InputDigest: d.input,
		IdempotencyKey: keyOf(d.action), Fence: d.route.Fence, Compensates: d.undoes, Deadline: d.route.Deadline, At: now,
	}
	claim := h.remember(d, answer{})
	_, err := h.cfg.Journal.Apply(ctx, journal.Change{
		Action: d.route.Action, Message: claim,
		Mutate: func(r *journal.Record) error { return r.Accept(accepted) },
	})
	if err != nil {
		return verdict{}, err
	}
	left := min(d.route.Deadline.Sub(now), h.cfg.MaxDuration)
	own, stop := context.WithTimeout(context.WithoutCancel(ctx), left)
	preparing, stopPreparing := context.WithCancel(own)
	e := &execution{first: d, undoes: d.undoes, cancel: stop, refusedBy: CodeNotReady, done: make(chan struct{}), stopPreparing: stopPreparing, call: connector.Call{
		Tenant: d.route.Tenant, Action: d.route.Action, Capability: d.route.Capability, Input: d.action.Input,
		IdempotencyKey: accepted.IdempotencyKey, Deadline: now.Add(left),
	}}
	e.call.Checkpoint = func(ctx context.Context, operation json.RawMessage) error {
		return h.change(ctx, d.route.Action, func(r *journal.Record) error { return r.Checkpoint(operation) })
	}
	h.mu.Lock()
	h.running[d.route.Action] = e
	if h.closed {
		stop()
	}
	h.mu.Unlock()
	d.slot = false
	go h.execute(own, preparing, e)
	return verdict{waitFor: e}, nil
}

func (h *Host) change(ctx context.Context, action fleet.ActionID, mutate func(*journal.Record) error) error {
	_, err := h.cfg.Journal.Apply(ctx, journal.Change{Action: action, Mutate: mutate})
	return err
}

// execute carries an action out: intent, call started, call, outcome, each on the
// disk before the next. What comes before a commit heeds preparing.
func (h *Host) execute(ctx, preparing context.Context, e *execution) {
	defer func() {
		e.stopPreparing()
		e.cancel()
		h.mu.Lock()
		delete(h.running, e.call.Action)
		h.mu.Unlock()
		close(e.done)
		h.free()
	}()
	// What is journaled must not depend on the deadline of the call.
	durable := context.WithoutCancel(ctx)
	log := h.cfg.Log.With("action", e.call.Action.String(), "fence", e.first.route.Fence.Number)
	began := h.cfg.Now()
	result, err := h.prepare(ctx, e)
	if err == nil && result.Class == "" {
		result, err = h.perform(ctx, preparing, e)
	}
	if fleet.CodeOf(err) == journal.CodeTransition {
		log.Info("cancelled before the call")
		return
	}
	if err != nil {
		log.Error("execution not journaled", "error", err.Error())
		return
	}
	if err := h.settle(durable, e, result); err != nil {
		log.Error("outcome not journaled", "error", err.Error())
		return
	}
	crashpoint.Reach(crashpoint.ResultPersisted)
	log.Info("executed", "capability", e.call.Capability.String(), "class", string(result.Class),
		"why", result.Why, "took_ms", h.cfg.Now().Sub(began).Milliseconds())
}

// prepare gets the credential and journals the intent. A result means that the call
// is not made.
func (h *Host) prepare(ctx context.Context, e *execution) (connector.Result, error) {
	revision, ref := h.Credentials().use(e.first.route.CredentialRevisionRef, h.cfg.SecretRef)
	e.call.CredentialRevision = revision
	if ref != "" && h.cfg.Secrets != nil {
		credential, err := h.cfg.Secrets.Get(ctx, ref)
		if err != nil {
			return notStarted("the credential cannot be resolved"), nil
		}
		e.call.Credential = credential
	}
	// It may have been revoked since the action was accepted, or while it was fetched.
	if why := h.Credentials().judge(revision); why != "" {
		e.refusedBy = CodeCredentialRevision
		return notStarted(why), nil
	}
	if ctx.Err() != nil {
		return notStarted("the deadline passed, or the host stopped, before the call"), nil
	}
	err := h.change(context.WithoutCancel(ctx), e.call.Action, (*journal.Record).Intend)
	crashpoint.Reach(crashpoint.IntentPersisted)
	return connector.Result{}, err
}

// call journals that the call starts and makes it.
func (h *Host) call(ctx context.Context, e *execution, attempt func(context.Context) (connector.Result, error)) (connector.Result, error) {
	if err := h.change(context.WithoutCancel(ctx), e.call.Action, (*journal.Record).StartCall); err != nil {
		return connector.Result{}, err
	}
	crashpoint.Reach(crashpoint.CallStarted)
	result, err := attempt(ctx)
	crashpoint.Reach(crashpoint.ProviderEffect)
	if err != nil {
		return connector.Result{Class: connector.Unknown, Why: err.Error()}, nil
	}
	return usable(result), nil
}

// settle journals the outcome together with the answer to the first message.
func (h *Host) settle(ctx context.Context, e *execution, result connector.Result) error {
	mutate, a, err := h.outcome(e, result)
	if err != nil {
		return err
	}
	_, err = h.cfg.Journal.Apply(ctx, journal.Change{
		Action: e.call.Action, Mutate: mutate, Message: h.remember(e.first, a),
	})
	if fleet.CodeOf(err) == journal.CodeTransition {
		return nil // a cancel came first, and is what the asker will be told
	}
	return err
}

// outcome is what a result does to the record, and what the first asker is told.
func (h *Host) outcome(e *execution, result connector.Result) (func(*journal.Record) error, answer, error) {
	fence := e.first.route.Fence.Number
	switch {
	case result.Class.Definite():
		doc, err := h.resultDocument(e.call.Action, fence, result, "call")
		if err != nil {
			return nil, answer{}, err
		}
		a, err := h.sign(e.first.reply, http.StatusOK, storedResult{doc})
		return func(r *journal.Record) error { return r.Finish(doc) }, a, err
	case result.Class == connector.NotStarted:
		why := journal.Refusal{Check: ruleOf(e.refusedBy).check, Code: e.refusedBy, Why: result.Why}
		a, err := h.refusalAnswer(e.first, refuse(e.refusedBy, result.Why))
		return func(r *journal.Record) error { return r.Abandon(why) }, a, err
	}
	known := evidence("call_lost", result.Why)
	a, err := h.statusAnswer(e.first, journal.Record{
		State: journal.Unknown, Highest: e.first.route.Fence, Evidence: known,
	})
	return func(r *journal.Record) error { return r.Lose(known) }, a, err
}

// receipt says who found the outcome, and where it is written down.
type receipt struct {
	Fence     uint64          `json:"fence"`
	Journal   fleet.JournalID `json:"journal_id"`
	Source    string          `json:"source"` // call, reconcile or cancel
	At        time.Time       `json:"at"`
	Operation json.RawMessage `json:"operation,omitempty"`
}

// maxFailure bounds the message of a failure in bytes.
const maxFailure = 2000

// resultDocument is the action_result of a definite outcome, in the bytes that are
// kept and signed.
func (h *Host) resultDocument(action fleet.ActionID, fence uint64, result connector.Result, source string) (json.RawMessage, error) {
	doc := protocol.ActionResult{ActionID: action, Status: protocol.ResultCompleted, Output: result.Output, Content: result.Content}
	if result.Class == connector.Failed {
		doc.Status = protocol.ResultFailed
		doc.Error = &protocol.Error{Code: "AIP_PROVIDER_FAILED", Category: "provider", Source: "connector", Message: "the connector refused"}
		if f := result.Failure; f != nil {
			doc.Error.Message = fleet.Printable(f.Message, maxFailure)
			doc.Error.Details, _ = json.Marshal(map[string]string{"code": f.Code})
		}
	}
	return sealDocument(doc, h.receipt(fence, source, result.Operation))
}

func (h *Host) receipt(fence uint64, source string, operation json.RawMessage) receipt {
	return receipt{Fence: fence, Journal: h.cfg.Journal.ID(), Source: source, At: h.cfg.Now().UTC(), Operation: operation}
}

func sealDocument(doc protocol.ActionResult, r any) (json.RawMessage, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	doc.Receipt = raw
	if err := doc.Validate(); err != nil {
		return nil, err
	}
	return envelope.CanonicalOf(doc)
}
