package settlement

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// CodeOverdue marks settlements made because an attempt outlived its deadline
// (G12). They never touch the circuit: nobody was asked. Only a registry writes it.
const CodeOverdue = "settle.overdue"

// CodeLeaseExpired marks settlements made because the attempt's lease epoch ended.
const CodeLeaseExpired = "settle.lease_expired"

// MaxOpen bounds the doubling of a circuit's open time, unless the policy itself
// asks for longer.
const MaxOpen = 10 * time.Minute

// NeedsRecord reports whether an outcome opens a reconciliation record (G42).
func NeedsRecord(o fleet.Outcome) bool { return !o.Definite() }

// Reserve takes a reservation through a circuit that routing.CircuitAdmits let
// pass. Past its open time a circuit turns half open, and the reservation is a
// probe; probe reports whether it holds a probe slot.
func Reserve(c fleet.Circuit, now time.Time) (after fleet.Circuit, probe bool) {
	if c.State == "" || c.State == fleet.CircuitClosed {
		return c, false
	}
	if c.State == fleet.CircuitOpen && c.OpenUntil.After(now) {
		return c, false // not admitted: the caller did not ask routing first
	}
	c.State = fleet.CircuitHalfOpen
	c.ProbesOut++
	return c, true
}

// Circuit returns the replica's circuit after an attempt settled. policy is the one
// the attempt was reserved under.
//
// Every settlement of a probe returns its slot. After that only two things count: a
// definite completion closes and resets, an unknown outcome or a peer fault adds one
// and opens at the threshold, or at once when a probe failed. An answer to an attempt
// reserved before the last opening changes nothing, nor does an overdue settlement.
func Circuit(policy fleet.CircuitPolicy, c fleet.Circuit, a fleet.Attempt, s fleet.Settlement, now time.Time) fleet.Circuit {
	if c.State == "" {
		c.State = fleet.CircuitClosed
	}
	if a.Probe && c.ProbesOut > 0 {
		c.ProbesOut--
	}
	stale := !c.OpenedAt.IsZero() && !a.ReservedAt.After(c.OpenedAt)
	switch {
	case policy.FailureThreshold == 0, s.Code == CodeOverdue, stale:
		return c
	case s.PeerFault || s.Outcome == fleet.OutcomeUnknown:
		return count(policy, c, now)
	case s.Outcome == fleet.OutcomeCompleted:
		return reset(c)
	}
	return c
}

// reset keeps OpenedAt, so that answers older than the opening stay without effect,
// and ProbesOut, so that each probe still out returns its own slot.
func reset(c fleet.Circuit) fleet.Circuit {
	return fleet.Circuit{State: fleet.CircuitClosed, OpenedAt: c.OpenedAt, ProbesOut: c.ProbesOut}
}

func count(policy fleet.CircuitPolicy, c fleet.Circuit, now time.Time) fleet.Circuit {
	c.ConsecutiveUnknowns++
	failedProbe := c.State == fleet.CircuitHalfOpen
	if !failedProbe && c.ConsecutiveUnknowns < policy.FailureThreshold {
		return c
	}
	c.Openings++
	c.State = fleet.CircuitOpen
	c.OpenedAt = now
	c.OpenUntil = now.Add(openFor(policy, c.Openings))
	return c
}

// openFor doubles with every opening in a row: base, 2*base, 4*base … up to MaxOpen.
func openFor(policy fleet.CircuitPolicy, openings uint32) time.Duration {
	d := time.Duration(policy.OpenMillis) * time.Millisecond
	limit := max(MaxOpen, d)
	for range openings - 1 {
		if d *= 2; d >= limit {
			return limit
		}
	}
	return d
}
