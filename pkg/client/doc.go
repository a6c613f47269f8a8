// Package client answers: how does a program talk to aipd?
//
// It is a typed client of aipd's HTTP surface: actions, their results and routes,
// the tenant's catalog, readiness. Every refusal of the server comes back as the
// *fleet.Error it was, with kind, code, cause and next step (G40); when the server
// cannot be reached the kind says whether the request may have arrived.
//
// It never retries and never follows redirects: whether a repeat is safe is the
// caller's knowledge. The bearer token is sent to the configured server only and
// printed nowhere (G21).
package client
