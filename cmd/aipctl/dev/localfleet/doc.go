// Package localfleet answers: how does a whole fleet run on one machine, in one
// directory, and how does it get away again?
//
// It makes a private PostgreSQL, keys, configurations and a signed release, admits
// the release with the real aipctl, and starts aipd lifecycle, aipd serve and the
// connector hosts as processes of their own. Everything it makes is below one
// directory; every process it starts is recorded there with the time at which it
// began, so that a later call stops exactly those and no stranger that got the same
// number (G39: the processes outlive whoever started them).
//
// Secrets are files that only their owner can read; no value is printed, and none is
// an argument of a process (G21).
//
// It does not own what the processes do, the database server (package pgcluster) or
// the example product (package desk).
package localfleet
