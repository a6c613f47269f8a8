// Package gateway answers: who is asking aipd, may they, and what do they get?
//
// It is aipd's HTTP surface. Every request is authenticated (JWT from a key set, or
// a hashed development token); the tenant comes from the verified identity and from
// nowhere else (G19), and everything behind it is scoped to that tenant (G18). A
// rule file says who may call which capability; what no rule allows is denied.
// Bodies are strict JSON, inputs are checked against the catalog's schema before an
// action exists, and every refusal names the rule that refused (G40).
//
// It does not run actions (package dispatch), and decides nothing about routes.
package gateway
