// Package lease states how long a replica may be trusted.
//
// It answers "may this replica register, beat, drain or leave now, and what is its
// state afterwards?" as pure functions over [fleet.ReplicaLive] (G22, G23), and, on
// the host's side, "may I still act on my own lease?" with [Held] (G24).
//
// Both registries follow it: the memory one by calling it, the PostgreSQL one by
// functions that the conformance suite proves equal to it.
//
// It does not verify signatures (package lifecycle), settle the attempts of a lost
// lease (the registries do, by package settlement), nor read a clock: the caller
// passes the instant, read after its last lock.
package lease
