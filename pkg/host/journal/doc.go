// Package journal answers: what does this host durably know about an action, and
// what may therefore still be done with it?
//
// One bbolt file holds one record per action and the signed messages that were
// answered lately. A change is durable when [Journal.Apply] returns: waiting
// changes are written in groups, by one goroutine, in one transaction with one
// sync to disk.
//
// Guarantees: G06 (a fence never goes back), G25 (a record refuses a second call
// under the same fence, and another call while an effect is possible), G26 (a
// call without a durable result is unknown after a restart), G27 (the stored
// answer to a message is kept byte for byte), G41 (a closed fence stays closed).
//
// A failed write or sync is final: the journal refuses everything afterwards and
// closes [Journal.Failed], because what is on the disk is then not known. Its
// owner must stop the process.
//
// The package does not decide which check refuses a request, speak to a
// connector, or sign anything. Package host does.
package journal
