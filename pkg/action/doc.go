// Package action answers: where does a requested action stand, who is running
// it, and what was its result?
//
// A Record is the central, durable life of one action. Its state machine is pure
// and closed: completed, failed and cancelled are final, and the stored result is
// the exact bytes that every repeat gets (G44). An action whose attempts are all
// known not to have started is retryable: the same submission runs it again, on
// its own route. Anything that may have happened is uncertain until it is decided
// by evidence or by an operator (G38).
//
// Every running action has an owner, one aipd process, whose lease lives in the
// store. When it ends, another aipd claims what the dead one left, including
// actions whose result is stored and whose reservation is not settled (G12, G39).
// Owner leases are for liveness only; that nothing runs twice is the work of
// fences and of the host's journal.
//
// It does not choose a route (package registry), send anything (package dispatch)
// or decide uncertain outcomes (package reconcile).
package action
