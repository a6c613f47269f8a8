// Package oci answers: how does a release package travel as an OCI artifact?
//
// It writes a package directory into an OCI image layout or a registry, and reads it
// back into a directory. The artifact's manifest lists release.yaml, manifest.json,
// deployment.yaml and the artifact's files as layers; each evidence file is a referrer
// of it, so that evidence can be added without changing what it is about.
//
// It trusts nothing that it reads: names, sizes and counts are checked before a byte
// is written, every blob is held against its digest, and whoever may push may add
// referrers. What the evidence is worth is decided afterwards, by package admission,
// over the directory (G33).
package oci
