// Package apptest runs aipctl commands against a small fleet in memory, for tests.
//
// It answers "what does this command line print, and how does it end?". The registry
// is the in-memory one, a real implementation of the contracts; the clock stands
// still unless a test moves it; aipd is a small server that keeps actions in a map.
package apptest
