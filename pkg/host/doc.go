// Package host answers: may this signed message make this connector act, and what
// became of it when it did?
//
// A host serves one connector instance in one admitted version under one replica
// identity. Each message passes twelve checks in a fixed order, and every refusal
// names the check that refused (G40). What passes is executed at most once per
// attempt and remembered in the journal before and after the call:
//
//   - G25: the provider is called at most once per (action, fence), and again for an
//     action only if every earlier attempt is known not to have started or an
//     operator's signed decision says so. A host whose journal is not the one that
//     an earlier attempt was sent to does not execute what may have been executed.
//   - G26: a call without a durable result is unknown, then reconciled.
//   - G27: other input under the same action is refused; an exact repeat gets the
//     stored answer, byte for byte.
//   - G41: before a signed "not started" leaves, that fence is closed in the journal.
//   - G43: status and cancel need no lease, readiness or capacity.
//
// An execution belongs to the host, not to the HTTP request that started it.
//
// The package does not choose tenant, instance, version or replica; it compares
// them with its own (G19). It never sees the registry.
package host
