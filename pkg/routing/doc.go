// Package routing states who may serve a new action and in what order.
//
// It answers "which replica, and why not the others?" as pure functions over values:
// [Filter] removes candidates that may not serve (G08), [Pick] orders what is left
// and names the winner (G10), [Explain] does both and keeps every reason (G40).
//
// Both registries follow it: the memory one by calling it, the PostgreSQL one by
// functions that the conformance suite proves equal to it.
//
// It does not own pinned work: a retry never selects (G09); package settlement and
// the registries decide whether the one replica of a route may be reserved again
// with [Repin].
package routing
