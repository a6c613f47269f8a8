// Package fleet is the vocabulary of the connector fleet: identities, records,
// the route and its attempts, outcomes, and the one error type.
//
// It answers "what is the word for this, and when is a value of it well formed?".
// It imports only the standard library and is imported by everything else.
//
// It guarantees that an identity can only be made by parsing it, so a value in
// hand is a valid one, and that every refusal carries a closed [Kind] and a stable
// code (G40).
//
// It does not own rules: who may serve an action is package routing, how long a
// replica may be trusted is package lease, what an outcome does to capacity is
// package settlement.
package fleet
