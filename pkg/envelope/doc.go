// Package envelope answers: is this message exactly what that peer signed, for
// me, for this purpose, and recently?
//
// It holds the strict JSON gate (one value, no duplicate or case-variant
// members, valid UTF-8, bounded depth), the canonical form that signatures
// cover, did:key identities, key sets that can roll, and Seal and Open.
//
// Signatures are Ed25519 over the canonical form of the received token tree,
// never over a re-serialised Go struct, so that nothing a receiver does not
// model can change unnoticed. The canonical form has the key order and string
// escapes of RFC 8785; a number keeps the token it was written with, so that a
// 64-bit or decimal value is neither refused nor rounded. Where every number is
// already in the form of RFC 8785 the two forms are the same.
//
// Every message names its purpose, so that a signature given for one purpose
// cannot be replayed as another (G19). Keys come from the pinned peer or from a
// key set, never from the message. Every refusal carries the code of the rule
// that refused (G40).
//
// The package does not claim message ids (replay is its caller's), does not
// know what a body means, and makes no network call.
package envelope
