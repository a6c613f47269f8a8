// Package registry is the contract of the fleet's durable state: which capabilities
// a tenant may call, which replica an action is pinned to, what is reserved, and
// what is uncertain.
//
// It answers "what may I ask of a registry, and what does it promise?". The promises
// are the numbered guarantees G01-G20, G22, G23, G37, G38, G42-G44 of
// docs/guarantees.md; package registrytest proves them on every implementation and
// [Audit] checks every invariant over a snapshot.
//
// The contracts are narrow, and a consumer takes only the one it needs:
//
//   - [Catalog]: what may this tenant call
//   - [Router]: who serves this action, and how did it end
//   - [Reader]: typed reads for operators and checks
//   - [Publisher]: change sets, one revision each
//   - [Fleet]: leases of replicas, intent, expiry
//   - [Uncertain]: attempts without a definite answer
//   - [Custody]: what an operator says about a replica whose host cannot
//
// It does not own rules (packages catalog, routing, lease and settlement do) nor
// storage (packages memory and postgres do).
package registry
