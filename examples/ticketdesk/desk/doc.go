// Package desk answers: what does one account's ticket desk hold, and what did
// each call do to it?
//
// It is the product side of the example connector, and it keeps the promises
// that a fleet asks of a provider. Every effect is one durable record in an
// append-only file, written and flushed before the call is answered. A call with
// an idempotency key that was used before returns the first result and has no
// second effect; a key that was used for another request is refused. An effect
// can be found again by its key. Several processes may share one directory.
//
// The records are the truth: ReadEffects recounts them from outside while the
// desk is running. Faults makes a call crash or stall on purpose, before or
// after its effect.
//
// What it does not own: the protocol that the calls arrive in.
package desk
