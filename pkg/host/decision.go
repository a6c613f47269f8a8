package host

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// decisionAge is how old an operator's decision may be when a host first sees it, by
// default. One that the journal has taken does not wear off.
const decisionAge = 30 * 24 * time.Hour

// clockSkew is how far an operator's clocks may be apart.
const clockSkew = 30 * time.Second

// applyDecision journals an operator's decision that comes with a dispatch, where
// the journal would otherwise not let the action run (G25). It returns the record
// as it is then, or why the decision is not accepted.
func (h *Host) applyDecision(ctx context.Context, d *delivery, r journal.Record) (journal.Record, *refusal, error) {
	useful := r.State == journal.Unknown || r.State == journal.None || r.State == journal.NotStarted
	if len(d.route.Decision) == 0 || !useful || r.Took(d.route.Decision) {
		return r, nil, nil
	}
	decision, err := h.openDecision(d)
	if err != nil {
		return r, refuse(CodeJournalGap, "the operator's decision is not accepted: "+reason(err)), nil
	}
	if decision.Fence <= r.Decided {
		return r, nil, nil
	}
	if decision.Fence < r.Called && r.State == journal.NotStarted {
		return r, nil, nil // later attempts are known not to have started: nothing is left to decide
	}
	if decision.Fence < r.Called {
		return r, refuse(CodeJournalGap, "the operator's decision is about an older attempt"), nil
	}
	r, err = h.cfg.Journal.Apply(ctx, journal.Change{Action: d.route.Action, Mutate: func(r *journal.Record) error {
		return r.Decide(d.route.Action, decision.Fence, d.route.Decision)
	}})
	return r, nil, err
}

// openDecision proves that an operator's key signed, for this host and this action,
// that no attempt before this one happened.
func (h *Host) openDecision(d *delivery) (protocol.Decision, error) {
	opened, err := envelope.Open(d.route.Decision, envelope.Expect{
		Purpose: envelope.Decision, Audience: h.cfg.Signer.DID(), Keys: h.cfg.Operators, Now: h.cfg.Now(),
		MaxAge: h.cfg.DecisionAge, MessageTypes: []string{protocol.TypeDecision},
	})
	if err != nil {
		return protocol.Decision{}, err
	}
	decision, err := protocol.Read[protocol.Decision](opened)
	switch {
	case err != nil:
		return decision, err
	case decision.ActionID != d.route.Action || decision.Replica != h.cfg.Identity.Replica:
		return decision, fleet.Errorf(fleet.Denied, CodeJournalGap, "it is about another action or replica")
	case decision.DecidedAt.Sub(opened.Envelope().SentAt) > clockSkew || opened.Envelope().SentAt.Sub(decision.DecidedAt) > h.cfg.DecisionAge:
		return decision, fleet.Errorf(fleet.Denied, CodeJournalGap, "it was signed before, or long after, it was decided")
	case decision.Outcome != fleet.ResolvedDidNotHappen:
		return decision, fleet.Errorf(fleet.Denied, CodeJournalGap, "it does not say that nothing happened")
	case decision.Fence >= d.route.Fence.Number:
		return decision, fleet.Errorf(fleet.Denied, CodeJournalGap, "it covers the attempt that carries it")
	}
	return decision, nil
}

// evidence is what is known of an outcome that is not, as it goes over the wire.
func evidence(reason, detail string) json.RawMessage {
	raw, _ := json.Marshal(map[string]string{"reason": reason, "detail": detail})
	return raw
}

func internal(format string, args ...any) error {
	return fleet.Errorf(fleet.Internal, "host.internal", format, args...)
}
