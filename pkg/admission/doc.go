// Package admission answers: may this connector release become routable, and if
// not, why not, all of it at once?
//
// It reads a release package (a directory, or the archive the registry keeps),
// evaluates every evidence slot the trust policy asks for, and gives either
// findings or a [Verified] release, which is the only thing that turns into a
// change set. Nothing else makes a connector version (G33). What was decided, from
// which evidence, under which trust revision and at which time is written down
// so that the same decision can be made again offline (G35).
//
// Trust has two layers that never mix. Whether a signature was made by a key over
// some bytes is the business of a [Bundles] implementation (package
// admission/sigstore). Whether that key, those bytes and what they say are
// acceptable here is decided in this package, over the exact signed bytes.
//
// It does not own the registry, does not start the release, and makes no network
// call. It links no Sigstore library, so that a connector host can read its own
// package with it.
package admission
