// Package reconcile answers: what became of an action whose answer never came?
//
// Every attempt without a definite answer has an open record in the registry (G42).
// The reconciler asks the pinned host, signed, by action id, whatever the state of
// its lease, drain, circuit or version (G43); only the host's signed answer, or an
// operator's signed decision, closes a record. Results are stored before a record is
// closed, so that no crash in between loses them. What the policy's age passes by
// goes to an operator; nothing is forgotten (G38) and nothing is ever resent.
//
// It also runs the registry's expiry, which ends reservations of dead hosts without
// contacting anybody (G12).
//
// It does not execute anything, and it cannot make an operator's decision.
package reconcile
