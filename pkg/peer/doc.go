// Package peer answers: how does one message reach exactly the pinned peer, and
// what is known about it when it did not come back?
//
// The endpoint comes from a declared record and never from a message (G19). The
// address it resolves to is judged again at the moment of dialling, so that a
// name that is pointed elsewhere reaches nothing. No proxy settings are read, no
// redirect is followed, answers are bounded.
//
// Every failure says whether any byte of the request may have been written:
// "no" is only said where it can be proved, because callers release capacity and
// retry on it (G25, G41).
//
// The package does not sign, open or understand messages, and does not retry.
package peer
