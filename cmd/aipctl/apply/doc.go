// Package apply is aipctl plan and apply: a file that declares instances, replicas,
// bindings and quotas becomes one change set and one catalog revision.
//
// It answers "make the fleet as this file says, and show me the difference first".
// The grammar is the records' own JSON names in YAML; unknown fields are refused.
// Revisions of instances, bindings and quotas may be left out: they then grow by one
// exactly when the record differs. Nothing is removed by absence.
package apply
