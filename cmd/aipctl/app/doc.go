// Package app is the ground on which every aipctl command stands: streams,
// global flags, the named target, output, errors and confirmation.
//
// It answers "how does a command of aipctl read its surroundings and speak to its
// caller?". It guarantees that a result goes to stdout alone and everything else to
// stderr, that -o json is one valid document, that text from records never carries
// control, ANSI or bidirectional characters to a terminal (G18, G21), that every
// refusal names its rule and the next command (G40), and that nothing asks a
// question of a caller who cannot answer.
//
// It does not own what the commands do, nor the meaning of any record.
package app
