// Package sigstore answers: what does this Sigstore bundle hold, and is what signs
// it genuine?
//
// It reads bundles of the versions 0.1 to 0.3, signed with a key or with a short-lived
// certificate, with log entries (Rekor 1 and 2) and RFC 3161 timestamps, and makes
// keyed ones (v0.3) from Ed25519 and ECDSA P-256 keys. A bundle that cosign made reads
// the same. It is the only importer of Sigstore's libraries, so that only aipctl
// links them.
//
// It decides nothing: whom to trust, how many logs and timestamps are needed, and
// whether the signed content is acceptable, are rules of package admission (G33). It
// is stricter than the libraries below it in one way: what a bundle carries has to
// verify, all of it. An entry of an unknown log is refused, not passed over. Nothing
// depends on the clock (G35), and no text of a library gets into an error, since
// findings have to be the same for ever.
package sigstore
