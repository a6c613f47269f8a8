// Package hostmain answers: how does one connector instance run as a process?
//
// It opens the release package, proves the artifact, keeps the journal and the lease,
// runs the connector by the adapter that the manifest names, and serves signed
// messages. [Run] is aiphost; [Main] is a host whose connector is Go code of its own,
// so that the program itself is the admitted artifact (G28).
//
// SIGTERM drains and ends; SIGHUP takes over credential revisions and the places of
// secrets from the configuration file, without cutting a call.
//
// What may be executed is decided in package host; this package only wires.
package hostmain
