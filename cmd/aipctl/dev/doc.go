// Package dev is aipctl dev: a private fleet on this machine, and a demonstration of
// what the fleet promises.
//
// It answers "how do I try this?": up, down and status keep a whole fleet in one
// directory; demo starts a new one, breaks it on purpose, and shows that nothing was
// lost, done twice or forgotten.
//
// It does not own how the fleet is made (package localfleet) nor what the demo proves
// (package showcase).
package dev
