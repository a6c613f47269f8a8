// Package lifecycle answers: is this replica here, may it still be trusted, and
// does the operator want it to go on?
//
// It holds both sides of the signed control protocol: [Server] takes register,
// heartbeat, drain and offline from hosts and puts them to the registry's lease
// contract; [Client] keeps one host's own lease.
//
// Guarantees: G22 and G23 are the registry's; the server adds that only the
// declared peer's signature reaches it, that a repeat gets the same answer, and that
// cheap checks and a rate limit per peer come before any read of the database. The
// client keeps G24: it counts its lease from before it asked, on the monotonic
// clock, and stops trusting it a margin early.
//
// A host that cannot execute anything yet, because its connector is not up, says so as
// it registers, and gets nothing before it says that it is ready (G08).
//
// The package does not migrate, admit, route or execute anything. Maintenance
// (expiry) belongs to the central daemon.
package lifecycle
