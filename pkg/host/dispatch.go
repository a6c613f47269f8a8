package host

import (
	"context"

	"github.com/aipfleet/aipfleet/pkg/host/journal"
)

// verdict is what the checks come to: an answer now, or an execution to wait for.
type verdict struct {
	answer  answer
	waitFor *execution
}

// deliver takes an opened, routed message through the rest of the checks and
// answers it. ctx is the asker's; an execution does not end with it.
func (h *Host) deliver(ctx context.Context, d *delivery) (answer, error) {
	v, err := h.decide(ctx, d)
	if err != nil || v.waitFor == nil {
		return v.answer, err
	}
	select {
	case <-v.waitFor.done:
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
	return h.conclude(ctx, d)
}

// decide runs checks 4 to 12 with the action locked.
func (h *Host) decide(ctx context.Context, d *delivery) (verdict, error) {
	defer h.locks.lock(d.route.Action.String())()
	if a, known, err := h.recall(d); known || err != nil {
		return verdict{answer: a}, err
	}
	r, _, err := h.cfg.Journal.Get(d.route.Action)
	if err != nil {
		return verdict{}, err
	}
	switch d.errand {
	case status:
		return h.askStatus(ctx, d, r)
	case cancel:
		return h.askCancel(ctx, d, r)
	case settled:
		return h.askSettled(ctx, d, r)
	}
	h.plantOldFence(d, r)
	if no := h.checkFence(d, r); no != nil {
		return h.refused(ctx, d, no)
	}
	return h.checkKnown(ctx, d, r)
}

// recall is check 4: an answered message gets its answer again, other bytes under
// the same id are refused. A message that is still being worked on is not known.
func (h *Host) recall(d *delivery) (answer, bool, error) {
	m, found, err := h.cfg.Journal.Recall(d.message)
	if err != nil || !found {
		return answer{}, false, err
	}
	if m.Digest != d.digest {
		a, err := h.refusalAnswer(d, refuse(CodeReplay, "other bytes came under this id before"))
		return a, true, err
	}
	return answer{status: m.Status, body: m.Answer, signed: true}, len(m.Answer) > 0, nil
}

// checkKnown is check 6: what the journal says of the action.
func (h *Host) checkKnown(ctx context.Context, d *delivery, r journal.Record) (verdict, error) {
	if no := checkInput(d, r); no != nil {
		return h.refused(ctx, d, no)
	}
	r, decided, err := h.applyDecision(ctx, d, r)
	if err != nil {
		return verdict{}, err
	}
	if decided != nil {
		return h.refused(ctx, d, decided)
	}
	switch r.State {
	case journal.Result, journal.Cancelled:
		return h.fromRecord(ctx, d, r)
	case journal.Unknown, journal.Releasing:
		if r, err = h.lookAgain(ctx, r); err != nil {
			return verdict{}, err
		}
		return h.fromRecord(ctx, d, r)
	}
	if r.State.Running() {
		return h.join(d, r)
	}
	if r.State == journal.NotStarted && d.route.Fence.Number <= r.Closed {
		return h.fromRecord(ctx, d, r)
	}
	if no := h.checkGap(d, r); no != nil {
		return h.refused(ctx, d, no)
	}
	return h.admit(ctx, d, r)
}

// join waits for the execution under way, whichever message began it.
func (h *Host) join(d *delivery, r journal.Record) (verdict, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.running[d.route.Action]; ok {
		return verdict{waitFor: e}, nil
	}
	return verdict{}, stranded(r)
}

// admit runs checks 7 to 12 and begins the execution.
func (h *Host) admit(ctx context.Context, d *delivery, r journal.Record) (verdict, error) {
	defer func() {
		if d.slot {
			h.free()
		}
	}()
	for _, check := range h.admission() {
		if no := check(ctx, d, r); no != nil {
			return h.promise(ctx, d, no)
		}
	}
	no, err := h.checkTransaction(d)
	if err == nil && no == nil && !d.undoes.IsZero() {
		no, err = h.claimUndo(ctx, d)
	}
	if err != nil {
		return verdict{}, err
	}
	if no != nil {
		return h.promise(ctx, d, no)
	}
	if d.action.IdempotencyKey != "" {
		defer h.locks.lock("key " + d.route.Capability.String() + " " + d.action.IdempotencyKey)()
		holder, err := h.cfg.Journal.Holder(d.route.Capability, d.action.IdempotencyKey)
		if err != nil {
			return verdict{}, err
		}
		if !holder.IsZero() && holder != d.route.Action {
			return h.promise(ctx, d, refuse(CodeContract, "another action holds the idempotency key"))
		}
	}
	return h.begin(ctx, d)
}

// refused answers a refusal that promises nothing, and remembers the answer.
func (h *Host) refused(ctx context.Context, d *delivery, no *refusal) (verdict, error) {
	a, err := h.refusalAnswer(d, no)
	if err != nil {
		return verdict{}, err
	}
	_, err = h.cfg.Journal.Apply(ctx, journal.Change{Message: h.remember(d, a)})
	return verdict{answer: a}, err
}

// promise makes the promise of G41 durable, together with the answer that gives
// it, before that answer leaves.
func (h *Host) promise(ctx context.Context, d *delivery, no *refusal) (verdict, error) {
	a, err := h.refusalAnswer(d, no)
	if err != nil {
		return verdict{}, err
	}
	if h.cfg.PlantUnsafe.OpenFence {
		return verdict{answer: a}, nil
	}
	why := journal.Refusal{Check: ruleOf(no.code).check, Code: no.code, Why: no.why}
	_, err = h.cfg.Journal.Apply(ctx, journal.Change{
		Action:  d.route.Action,
		Mutate:  func(r *journal.Record) error { return r.Close(d.route.Action, d.route.Fence, why) },
		Message: h.remember(d, a),
	})
	return verdict{answer: a}, err
}

// fromRecord answers from the journal, and remembers the answer.
func (h *Host) fromRecord(ctx context.Context, d *delivery, r journal.Record) (verdict, error) {
	a, err := h.recordAnswer(d, r)
	if err != nil {
		return verdict{}, err
	}
	_, err = h.cfg.Journal.Apply(ctx, journal.Change{Message: h.remember(d, a)})
	return verdict{answer: a}, err
}

// conclude answers a message whose execution has ended.
func (h *Host) conclude(ctx context.Context, d *delivery) (answer, error) {
	defer h.locks.lock(d.route.Action.String())()
	if a, known, err := h.recall(d); known || err != nil {
		return a, err
	}
	r, _, err := h.cfg.Journal.Get(d.route.Action)
	if err != nil {
		return answer{}, err
	}
	if r.State.Running() {
		return answer{}, stranded(r)
	}
	if r.State == journal.NotStarted && d.route.Fence.Number > r.Closed {
		// The execution that was joined belonged to an older attempt: the promise is
		// about this one as well.
		v, err := h.promise(ctx, d, storedRefusal(r))
		return v.answer, err
	}
	v, err := h.fromRecord(ctx, d, r)
	return v.answer, err
}

func (h *Host) remember(d *delivery, a answer) *journal.Message {
	return &journal.Message{
		ID: d.message, Digest: d.digest, Action: d.route.Action, Status: a.status, Answer: a.body, At: h.cfg.Now(),
	}
}

// stranded is an execution whose end could not be journaled.
func stranded(r journal.Record) error {
	return internal("the execution of %s ended without a record", r.Action)
}
