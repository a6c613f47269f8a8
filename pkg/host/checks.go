package host

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// checkFence is check 5: the attempt is the newest one and of this lease's epoch.
// The epoch only matters while there is something to execute: an outcome, or a
// promise made before, is told to an attempt of an older epoch as well, and a repeat
// that reaches a host after its restart is one. A refusal is only as harmless as what the journal says.
func (h *Host) checkFence(d *delivery, r journal.Record) *refusal {
	idle := r.State == journal.None || r.State == journal.NotStarted && d.route.Fence.Number > r.Closed
	probe := journal.Record{Highest: r.Highest}
	if err := probe.See(d.route.Fence); err != nil {
		no := refuse(CodeFenceLost, reason(err))
		if r.State != journal.None && r.State != journal.NotStarted && r.State != journal.Cancelled {
			no.class = protocol.ClassUnknown
		}
		return no
	}
	// Only an older epoch is over for good. A newer one may still reach this host:
	// its lease answer is on the way, so check 7 refuses that attempt and closes it.
	if epoch := h.cfg.Lease.Standing().Epoch; idle && d.route.LeaseEpoch < epoch {
		return refuse(CodeFenceLost, fmt.Sprintf("the attempt was reserved under lease epoch %d, this host holds %d", d.route.LeaseEpoch, epoch))
	}
	return nil
}

// checkInput is the last row of check 6's table: one action, one input (G27).
func checkInput(d *delivery, r journal.Record) *refusal {
	if r.InputDigest.IsZero() || r.InputDigest == d.input && r.Capability == d.route.Capability {
		return nil
	}
	return refuse(CodeActionConflict, "the action was accepted with another input")
}

// checkGap is check 6 for an action of which no call is known here: nothing that an
// earlier attempt may have done elsewhere is done again (G25).
func (h *Host) checkGap(d *delivery, r journal.Record) *refusal {
	own := h.cfg.Journal.ID()
	if h.cfg.PlantUnsafe.LostJournal {
		return nil
	}
	if d.route.RegisteredJournal != own {
		return refuse(CodeJournalGap, "the attempt was reserved for another journal than this host's")
	}
	for _, e := range d.route.EarlierVerdicts {
		excluded := e.Verdict == fleet.VerdictNeverSent || e.Verdict == fleet.VerdictNotStarted
		recorded := r.Known() && e.Journal == own && e.Verdict == fleet.VerdictUnknown
		if !excluded && !recorded && e.Fence > r.Decided {
			return refuse(CodeJournalGap, fmt.Sprintf("attempt %d is %s and this journal does not know it", e.Fence, e.Verdict))
		}
	}
	return nil
}

// admission lists checks 7 to 12, in order.
func (h *Host) admission() []func(context.Context, *delivery, journal.Record) *refusal {
	return []func(context.Context, *delivery, journal.Record) *refusal{
		h.checkReady, h.checkDraining, h.checkCapacity, h.checkCredential, h.checkApproval, h.checkContract,
	}
}

// checkReady is check 7: the lease is trusted by the own clock, the connector is up.
func (h *Host) checkReady(ctx context.Context, d *delivery, _ journal.Record) *refusal {
	if d.route.LeaseEpoch > h.cfg.Lease.Standing().Epoch {
		return refuse(CodeNotReady, "the attempt is of a newer lease than this host knows of")
	}
	if err := h.Ready(ctx); err != nil {
		return refuse(CodeNotReady, err.Error())
	}
	return nil
}

// checkDraining is check 8: while draining, only pinned work comes in.
func (h *Host) checkDraining(_ context.Context, d *delivery, r journal.Record) *refusal {
	if !h.Draining() || r.Known() || d.route.Fence.Number > 1 {
		return nil
	}
	return refuse(CodeDraining, "the host drains and does not know the action")
}

// busyRetry is the hint that a full host gives.
const busyRetry = 250 * time.Millisecond

// checkCapacity is check 9. A slot that it takes belongs to the delivery until an
// execution takes it over.
func (h *Host) checkCapacity(_ context.Context, d *delivery, _ journal.Record) *refusal {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return refuse(CodeNotReady, "the host is stopping")
	}
	if h.inFlight >= h.cfg.Capacity {
		return &refusal{code: CodeCapacity, why: fmt.Sprintf("%d actions are being executed", h.inFlight), after: busyRetry}
	}
	h.inFlight++
	d.slot = true
	return nil
}

// free gives a slot back.
func (h *Host) free() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inFlight--
	close(h.settled)
	h.settled = make(chan struct{})
}

// checkCredential is check 10. A route without a revision pins none.
func (h *Host) checkCredential(_ context.Context, d *delivery, _ journal.Record) *refusal {
	if why := h.Credentials().judge(d.route.CredentialRevisionRef); why != "" {
		return refuse(CodeCredentialRevision, why)
	}
	return nil
}

// checkApproval is check 11. A capability that asks for an approval is refused,
// since this host has no way of judging the evidence.
func (h *Host) checkApproval(_ context.Context, d *delivery, _ journal.Record) *refusal {
	capability, _ := h.cfg.Manifest.Capability(d.route.Capability)
	if !needsApproval(capability.Contract.Approval) {
		return nil
	}
	return refuse(CodeApproval, "the capability asks for an approval, and its evidence cannot be judged here")
}

// needsApproval reads the contract: required, or anything that is not understood.
func needsApproval(contract json.RawMessage) bool {
	if len(contract) == 0 || string(contract) == "null" {
		return false
	}
	var said struct {
		Required *bool `json:"required"`
	}
	if err := json.Unmarshal(contract, &said); err != nil || said.Required == nil {
		return true
	}
	return *said.Required
}

// checkContract is check 12: schema, transaction, deadline.
func (h *Host) checkContract(_ context.Context, d *delivery, r journal.Record) *refusal {
	if why := h.inputs.validate(d.route.Capability, d.action.Input); why != "" {
		return refuse(CodeContract, why)
	}
	if !d.route.Deadline.After(h.cfg.Now()) {
		return refuse(CodeContract, "the deadline has passed")
	}
	if r.IdempotencyKey != "" && r.IdempotencyKey != keyOf(d.action) {
		return refuse(CodeContract, "the action came with another idempotency key before")
	}
	return nil
}

// keyOf is the key that the provider gets: the client's own, or the action's id.
func keyOf(a protocol.Action) string {
	if a.IdempotencyKey != "" {
		return a.IdempotencyKey
	}
	return a.ID.String()
}
