// Package fairness answers: which waiting action runs next, and when is there
// too much waiting already?
//
// It guarantees that what is in flight, queued, how many bytes are queued and how
// long they wait stay within bounds, in all and per tenant (G31), and that a
// backlogged tenant of weight w gets at least its share w/sum(w) of the service,
// less one quantum (G32). Service is counted in expected milliseconds, a moving
// average per capability, so that ten slow calls do not count like ten quick ones.
// Weights affect fairness only. Enqueue, grant and cancel take constant time.
//
// It does not choose routes, and it knows nothing about replicas: their capacity
// is the registry's.
package fairness
