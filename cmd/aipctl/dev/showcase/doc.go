// Package showcase is the demonstration behind aipctl dev demo.
//
// It answers "does the fleet keep its promises when it is broken on purpose?": it
// drives a private fleet of real processes through a fixed list of steps, each named
// with the guarantees that it shows, and then stops everything and counts anew.
//
// What it reports is never counted on the way: the numbers of the summary come from
// the registry, the hosts' journals and the provider's own store, read at the end.
//
// It does not own how the fleet is made (package localfleet), nor any rule that it
// shows.
package showcase
