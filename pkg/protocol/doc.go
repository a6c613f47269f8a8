// Package protocol answers: which documents do the parties of the fleet
// exchange, and when is one well formed?
//
// It holds the AIP 1.0 documents that cross the wire inside an envelope (actions,
// results, cancellation, status, errors, chunks, discovery), the control
// documents between a host and the lifecycle service, the route coordinates that
// a dispatch carries, and the host's refusal. A document in hand was read
// strictly and validated; every refusal names the document and the member (G40).
//
// It does not sign or open messages (package envelope), and it does not decide
// what an answer means for an attempt (package dispatch).
package protocol
