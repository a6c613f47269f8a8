// Package dispatch answers: how does an accepted action reach exactly its route,
// and what is known afterwards?
//
// In order: a permit of the scheduler, a durable route, a durable note that a
// request is about to leave, the signed request to the pinned peer, the verified
// answer, its classification, the stored result, the settlement of exactly that
// attempt. Only "no byte was ever written" and a host's signed promise count as
// not started; a signed definite result is completed; everything else is unknown
// (G25, G41, G42). Work belongs to the engine and never to a caller's request: a
// dropped caller orphans no capacity (G12), and what a dead engine left is taken
// over by another, which begins with a status query (G39).
//
// It does not choose routes (package registry), does not decide uncertain outcomes
// (package reconcile), and has no HTTP surface (package gateway).
package dispatch
