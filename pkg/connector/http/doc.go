// Package http answers: how does a host call a product's HTTP API when all it has is
// a description of the requests?
//
// The description is a [Template]: the artifact of a release with the adapter http,
// and so under the admitted digest (G28). It says for each tool which request is made,
// where the credential goes, and what each status means. Nothing that a caller sends
// can change the method, the origin, a header's name or the structure of a body: an
// input's values are put into places that the template has for them, escaped for
// where they stand, or the call is not started (G19).
//
// What is known of a call follows from proof alone (G25, G26, G41): not started is a
// connection that was never had, or a status of which the template says that the
// product refuses before it acts; a status that the template does not name, an answer
// that does not come, and a redirect are unknown.
//
// Addresses are judged when they are dialled, after names were resolved. The package
// does not own whether a call may be made, and knows no product.
package http
