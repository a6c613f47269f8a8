// Package exec answers: how does a host make a call by running a program for it?
//
// The program is the admitted artifact, made ready and proved before it is first run
// (G28). It is started once for each call with one argument, the verb, and gets one
// JSON document on standard input; the credential is in that document and nowhere
// else (G21). What it writes to standard output is its answer, and its exit code says
// how the call ended:
//
//	0   it succeeded; standard output is the output
//	80  it was refused, definitely and without effect; {"code": …, "message": …}
//	81  it was not started: the program promises that nothing happened
//
// Every other code, a signal, and a program that was killed at its deadline are
// unknown (G26). Only a program that could not be started at all is not started
// without its word (G41).
//
// The verbs are invoke, plan, commit, release, compensate, reconcile and discover;
// the last lists the tools, which are compared with the manifest at start (G34).
//
// The package does not own whether a call may be made. It knows no product.
package exec
