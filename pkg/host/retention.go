package host

import (
	"context"
	"encoding/json"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// askSettled takes central's word that it keeps the outcome of an action. What runs,
// or is not known, is answered with its status instead.
func (h *Host) askSettled(ctx context.Context, d *delivery, r journal.Record) (verdict, error) {
	switch r.State {
	case journal.Result, journal.Cancelled, journal.NotStarted:
	case journal.None:
		// Nothing is kept here that could be given up.
		return h.acknowledge(ctx, d)
	default:
		return h.fromRecord(ctx, d, r)
	}
	if err := h.change(ctx, r.Action, (*journal.Record).Settle); err != nil {
		return verdict{}, err
	}
	return h.acknowledge(ctx, d)
}

func (h *Host) acknowledge(ctx context.Context, d *delivery) (verdict, error) {
	a, err := h.sign(d.reply, 200, protocol.Ack{MessageID: d.message, ActionID: d.route.Action, Digest: d.digest})
	if err != nil {
		return verdict{}, err
	}
	_, err = h.cfg.Journal.Apply(ctx, journal.Change{Message: h.remember(d, a)})
	return verdict{answer: a}, err
}

// Prune reduces what the journal keeps of ended actions to their verdicts, as far as
// Config.Retention allows. It returns how many it reduced.
func (h *Host) Prune(ctx context.Context) (int, error) {
	var after fleet.ActionID
	pruned := 0
	for ctx.Err() == nil {
		page, err := h.cfg.Journal.List(after, recoverPage)
		if err != nil || len(page) == 0 {
			return pruned, err
		}
		for _, r := range page {
			after = r.Action
			if !r.Prunable(h.cfg.Now(), h.cfg.Retention) {
				continue
			}
			if err := h.pruneOne(ctx, r.Action); err != nil {
				return pruned, err
			}
			pruned++
		}
	}
	return pruned, ctx.Err()
}

func (h *Host) pruneOne(ctx context.Context, action fleet.ActionID) error {
	defer h.locks.lock(action.String())()
	r, _, err := h.cfg.Journal.Get(action)
	if err != nil || !r.Prunable(h.cfg.Now(), h.cfg.Retention) {
		return err
	}
	short, err := h.verdictDocument(r)
	if err != nil {
		return err
	}
	return h.change(ctx, action, func(r *journal.Record) error { return r.Prune(short) })
}

// pruning is the receipt of a result of which only the verdict is left.
type pruning struct {
	receipt
	// Pruned is the digest of the full result document that was kept before.
	Pruned fleet.Digest `json:"pruned_document"`
}

// verdictDocument is the result that stands for a full one after its retention: the
// same verdict, without output and details. From then on it is the stored answer.
func (h *Host) verdictDocument(r journal.Record) (json.RawMessage, error) {
	if len(r.Document) == 0 {
		return nil, nil
	}
	var full protocol.ActionResult
	if err := json.Unmarshal(r.Document, &full); err != nil {
		return nil, err
	}
	short := protocol.ActionResult{ActionID: full.ActionID, Status: full.Status}
	if full.Error != nil {
		short.Error = &protocol.Error{Code: full.Error.Code, Category: full.Error.Category, Source: full.Error.Source, Message: "the details are not kept any more"}
	}
	return sealDocument(short, pruning{h.receipt(r.Fence, "retention", nil), fleet.DigestBytes(r.Document)})
}
