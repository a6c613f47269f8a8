// Package connector answers: what is a connector to its host, and what may be
// concluded from the way in which a call ended?
//
// A [Connector] reaches one account of one product. The host hands it a trusted
// context in a [Call]; the product, the account and the credential are never
// chosen by the caller (G19). Behaviour that not every connector has is a small
// interface of its own: [Canceller], [Reconciler], and for capabilities with a
// transaction contract [Planner], [Committer] and [Compensator].
//
// Every call ends in one of four [Class] values, and the difference between them
// is what G25 and G26 rest on: only [NotStarted] says that nothing can have
// happened, and an adapter answers it only with proof.
//
// The package does not own when a call may be made; package host does. Adapters
// are packages below this one.
package connector
