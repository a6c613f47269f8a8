// Package sim answers: does the protocol between aipd, hosts, registry and provider
// keep its promises whatever fails, in whatever order?
//
// A run is one small fleet in one process and in virtual time: two aipd, three hosts
// with real journals, the lifecycle service, a registry and a store in memory, a
// provider that counts its effects, clients that repeat, cancel and retry, an operator
// who drains and decides. All of it is the product's own code; only the network, the
// disk's end, the provider, the clients and the operator are doubles. Every fault is
// drawn by name from the seed, so that a seed repeats its run.
//
// A run ends when the faults have stopped and everything is quiet. Then these must
// hold: at most one effect for each action, and none under an attempt that was said
// not to have started (G25, G41); each action on one replica (G01, G09); none
// forgotten (G38); results equal byte for byte wherever they are read (G27, G44); the
// registry's audit clean and every counter zero (G04, G12). The whole set of runs must
// have met every kind of fault and every move of an action.
//
// The package must run inside a testing/synctest bubble; its tests do that.
package sim
