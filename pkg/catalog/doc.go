// Package catalog states what may be published and what a tenant may then see.
//
// It answers "may this change set become the next revision, and what does it change?"
// ([Check], G13, G34), "is this contract compatible with that one?" ([Incompatible]),
// "which version statuses follow which?" ([Move]), "is this chain visible to the
// tenant?" ([Visible], G18), and "where does the next page start?" ([Seal], [Open],
// G14, G16) as pure functions.
//
// It does not store anything, hold locks or count revisions: the registries do. It
// does not choose replicas: package routing does.
package catalog
