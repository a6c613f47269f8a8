// Package settlement states what a reservation holds and what its end does.
//
// It answers "which counters does an attempt take, what does an outcome do to the
// replica's circuit, and is this the exact assignment that is being settled?" as
// pure functions (G04, G05, G07, G42).
//
// Both registries follow it: the memory one by calling it, the PostgreSQL one by
// functions that the conformance suite proves equal to it.
//
// It does not choose replicas (package routing), nor count or store anything
// (the registries do).
package settlement
