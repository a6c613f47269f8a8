// Package postgres is the registry of a fleet: every contract of package registry
// over PostgreSQL, shared by any number of processes.
//
// It answers "how is the state of the fleet kept, so that the guarantees hold
// whatever crashes?". Each verb is one round trip to a function of package schema,
// which takes its locks in one documented order: action, publication, replicas,
// scopes. The rules are those of packages routing, settlement, lease and catalog;
// the conformance suite proves that SQL and Go agree.
//
// It guarantees G01-G20, G22, G23, G38, G42-G44 as the contracts state them. A
// commit whose fate is not known is never guessed: the registry reads again by key
// before it answers, and says Unknown when it cannot.
//
// Each process logs in with the one role that its plane needs (G20); what needs
// another role says so with code registry.no_…_pool.
//
// It does not own the schema's text (package schema) nor its migrations (package
// migrate, which alone links goose).
package postgres
