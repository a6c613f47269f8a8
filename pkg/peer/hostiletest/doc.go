// Package hostiletest answers: what does one of the fleet's HTTP surfaces do with what
// nobody well-meaning sends?
//
// [Requests] sends a table of raw requests over sockets: every one must end without
// success, and never with more answers than requests. [Documents] is a corpus of JSON
// that strict parsing refuses; [Post] sends all of it to a surface. Each surface's own
// tests run both against the running program (G18, G40).
//
// The package knows no surface: what must not have happened is checked by the caller.
package hostiletest
