package postgres

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

const settleSQL = `SELECT o_status, o_at, o_opened, o_first, o_settlement, o_live FROM aip.settle_one(
	$1::text, $2::bigint, $3::boolean, $4::text[], $5::text[],
	$6::text::aip.route, $7::text::aip.attempt, $8::json, $9::text, $10::text, $11::text, $12::boolean, $13::text)`

// settled is one answer of aip.settle_one.
type settled struct {
	status           string
	at, opened       *time.Time
	first            *bool
	settlement, live []byte
}

func (v *settled) columns() []any {
	return []any{&v.status, &v.at, &v.opened, &v.first, &v.settlement, &v.live}
}

// Settle implements registry.Router. Repeating it is harmless, so it is repeated
// after a lost answer; only then the receipt may report First false although this
// very call settled, also when a newer attempt was reserved meanwhile.
func (r *Registry) Settle(ctx context.Context, given fleet.Assignment, s fleet.Settlement) (registry.Receipt, error) {
	if err := registry.Wrong(s); err != nil {
		return registry.Receipt{}, err
	}
	if _, err := r.dataPool(); err != nil {
		return registry.Receipt{}, err
	}
	if !storable(given) {
		return registry.Receipt{}, lost(given)
	}
	if r.shared != nil {
		alone := r.shared.enter()
		defer r.shared.leave()
		if !alone && plain(given, s) && r.issued.holds(given) {
			receipt, how, err := r.settleShared(ctx, given, s)
			if how == answered {
				return receipt, err
			}
			return r.settleAlone(ctx, given, s, how == inDoubt)
		}
	}
	return r.settleAlone(ctx, given, s, false)
}

// settleAlone settles by a transaction of its own. doubt says that an earlier try may have
// settled: a later failure must not deny it.
func (r *Registry) settleAlone(ctx context.Context, given fleet.Assignment, s fleet.Settlement, doubt bool) (registry.Receipt, error) {
	args, err := settleArgs(given, s, r.issued.holds(given) && plain(given, s))
	if err != nil {
		return registry.Receipt{}, err
	}
	for try := range maxTries {
		receipt, known, err := r.settleOnce(ctx, args, s)
		switch {
		case err == nil && !known && doubt:
			return r.settledBefore(ctx, given, s)
		case err == nil && !known:
			return registry.Receipt{}, lost(given)
		case err == nil:
			r.issued.forget(given)
			return receipt, nil
		case fateUnknown(err):
			r.retries.unknown.Add(1)
			doubt = true
		case !r.retryable(err) && !doubt:
			return registry.Receipt{}, refused("settle.unavailable", "the attempt could not be settled", err)
		}
		if !pause(ctx, try) {
			break
		}
	}
	return registry.Receipt{}, unsettled(given)
}

// settledBefore answers a settlement whose first try may have been committed, and whose
// repeat found a newer attempt: that the fence is lost now does not mean that it was
// lost then. An attempt that ended exactly as this call asked is reported as settled.
func (r *Registry) settledBefore(ctx context.Context, given fleet.Assignment, asked fleet.Settlement) (registry.Receipt, error) {
	record, err := r.Lookup(ctx, given.Route.Tenant, given.Route.Action)
	if err != nil {
		return registry.Receipt{}, unsettled(given)
	}
	n := given.Attempt.Fence.Number
	if n < 1 || n > uint64(len(record.Attempts)) || record.Route != given.Route {
		return registry.Receipt{}, lost(given)
	}
	t := record.Attempts[n-1]
	if t.Settlement != nil {
		asked.SettledAt = t.Settlement.SettledAt
	}
	if t.Fence != given.Attempt.Fence || t.Settlement == nil || *t.Settlement != asked {
		return registry.Receipt{}, lost(given)
	}
	circuit, err := r.circuitOf(ctx, given.Route.Replica)
	if err != nil {
		return registry.Receipt{}, unsettled(given)
	}
	return registry.Receipt{Settlement: *t.Settlement, Circuit: circuit}, nil
}

func (r *Registry) circuitOf(ctx context.Context, id fleet.ReplicaID) (fleet.Circuit, error) {
	records, err := r.List(ctx, registry.Selection{Noun: registry.Replicas, IDs: []string{id.String()}})
	if err != nil || len(records.Replicas) == 0 {
		return fleet.Circuit{}, err
	}
	return records.Replicas[0].Live.Circuit, nil
}

func unsettled(given fleet.Assignment) *fleet.Error {
	return fleet.Errorf(fleet.Unknown, "settle.unknown", "it is not known whether the attempt of action %s was settled", given.Route.Action).
		Because("the database gave no answer").Advise("settle again: a repeat reports the first settlement")
}

func (r *Registry) settleOnce(ctx context.Context, args []any, asked fleet.Settlement) (registry.Receipt, bool, error) {
	var v settled
	var receipt registry.Receipt
	if err := r.data.row(ctx, settleSQL, args, v.columns()...); err != nil {
		return receipt, false, err
	}
	switch v.status {
	case "plain":
		return plainReceipt(asked, *v.at, *v.opened), true, nil
	case "settled":
	default:
		return receipt, false, nil
	}
	receipt.First = *v.first
	var s settlementRow
	var l liveRow
	if err := json.Unmarshal(v.settlement, &s); err != nil {
		return receipt, false, malformed(err)
	}
	if err := json.Unmarshal(v.live, &l); err != nil {
		return receipt, false, malformed(err)
	}
	var err error
	if receipt.Settlement, err = s.settlement(); err != nil {
		return receipt, false, malformed(err)
	}
	receipt.Circuit = l.circuit()
	return receipt, true, nil
}

// plainReceipt answers a first settlement that moved no circuit.
func plainReceipt(s fleet.Settlement, at, opened time.Time) registry.Receipt {
	s.SettledAt = at.UTC()
	return registry.Receipt{Settlement: s, First: true, Circuit: fleet.Circuit{State: fleet.CircuitClosed, OpenedAt: instant(opened)}}
}

// settleArgs writes the assignment as the rows that it claims to be; of one that was
// issued here, what finds it again.
func settleArgs(a fleet.Assignment, s fleet.Settlement, issued bool) ([]any, error) {
	outcome := []any{string(s.Outcome), s.Code, string(s.Verdict), s.PeerFault, s.EvidenceDigest.String()}
	args := []any{a.Route.Action.String(), int64(a.Attempt.Fence.Number), issued}
	if issued {
		row := rowOfAttempt(a.Attempt)
		return append(append(args, row.ScopeKinds, row.ScopeKeys, nil, nil, nil), outcome...), nil
	}
	args = append(args, nil, nil, rowOfRoute(a.Route).text(), rowOfAttempt(a.Attempt).text(), nil)
	if held := a.Attempt.Settlement; held != nil {
		raw, err := json.Marshal(rowOfSettlement(a.Attempt, *held))
		if err != nil {
			return nil, fleet.Invalidf("settle.assignment", "the assignment cannot be written as JSON").Caused(err)
		}
		args[7] = string(raw)
	}
	return append(args, outcome...), nil
}

// storable reports whether an assignment could be a stored one at all: what the
// database would round or refuse was never stored.
func storable(a fleet.Assignment) bool {
	if a.Route.Action.IsZero() || a.Attempt.Action != a.Route.Action || a.Attempt.Fence.Number < 1 || !isToken(a.Attempt.Fence.Token) {
		return false
	}
	times := []time.Time{a.Route.AssignedAt, a.Attempt.ReservedAt, a.Attempt.Deadline}
	if held := a.Attempt.Settlement; held != nil {
		times = append(times, held.SettledAt)
	}
	for _, t := range times {
		if t.Nanosecond()%1000 != 0 || t.Year() < 1 || t.Year() > 9999 {
			return false
		}
	}
	for _, n := range []uint64{
		a.Route.CatalogRevision, a.Route.BindingPolicyRevision, a.Route.QuotaPolicyRevision, a.Attempt.Fence.Number, a.Attempt.LeaseEpoch,
	} {
		if n > maxBigint {
			return false
		}
	}
	return textStorable(a)
}

// isToken reports whether newToken could have made it.
func isToken(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}

const maxBigint = 1<<63 - 1

func lost(given fleet.Assignment) *fleet.Error {
	return fleet.Errorf(fleet.FenceLost, "settle.fence_lost", "this is not the current assignment of action %s", given.Route.Action).
		Advise("look the action up; keep the answer as evidence")
}

// textStorable refuses text that PostgreSQL cannot hold.
func textStorable(a fleet.Assignment) bool {
	texts := []string{
		a.Route.Endpoint, a.Route.Topology.Region, a.Route.Topology.Zone, a.Route.Topology.CapacityClass,
		a.Route.Peer.PrincipalID, a.Route.Peer.PrincipalKind, a.Route.Peer.DID, a.Route.Peer.TrustDomain, a.Route.Peer.TransportProfile,
		a.Route.CredentialRevisionRef, a.Route.QuotaPolicyRef, a.Attempt.Fence.Token,
	}
	if held := a.Attempt.Settlement; held != nil {
		texts = append(texts, string(held.Outcome), held.Code, string(held.Verdict))
	}
	for _, s := range a.Attempt.Scopes {
		texts = append(texts, string(s.Kind), s.Key)
	}
	for _, t := range texts {
		if strings.ContainsRune(t, 0) || !utf8.ValidString(t) {
			return false
		}
	}
	return true
}
