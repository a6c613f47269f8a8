// Package sigstore answers: what does this Sigstore bundle hold, and did this key
// make its signature?
//
// It reads bundles of the versions 0.1 to 0.3 that are signed with a key, and makes
// them (v0.3) from Ed25519 and ECDSA P-256 keys. A bundle that cosign made with a
// key and without a log reads the same. It is the only importer of Sigstore's
// libraries, so that only aipctl links them.
//
// It decides nothing: which key may sign what, and whether the signed content is
// acceptable, are rules of package admission (G33). It refuses what it cannot
// evaluate (certificates, log entries, timestamps) rather than pass it over.
package sigstore
