// Package lifecycle is the command aipd lifecycle: the standalone signed lifecycle
// service over the registry's leases, under the role aip_lifecycle alone.
//
// Any number of them may run beside each other. It holds no catalog rights, runs no
// maintenance and executes nothing (G20).
package lifecycle
