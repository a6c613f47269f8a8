package tui

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Observed is what the linear form compares between two readings.
type Observed struct {
	status   registry.Status
	replicas map[string]string // state in words, by id
	routes   map[string]string
}

// newestRoutes is how many routes the linear form looks at in one reading.
const newestRoutes = 200

// maxSpoken bounds the lines about routes of one reading; more are counted.
const maxSpoken = 20

// Observe reads what the linear form compares. The deadline is the caller's.
func (c Config) Observe(ctx context.Context) (Observed, error) {
	c = c.withDefaults()
	o := Observed{replicas: map[string]string{}, routes: map[string]string{}}
	var err error
	if o.status, err = c.Reader.Status(ctx); err != nil {
		return o, late(err)
	}
	page, _, err := c.pages(ctx, registry.Selection{Noun: registry.Replicas})
	if err != nil {
		return o, late(err)
	}
	for i := range page.Replicas {
		o.replicas[page.Replicas[i].ID.String()] = spoken(&page.Replicas[i])
	}
	page, err = c.Reader.List(ctx, registry.Selection{Noun: registry.Routes, Limit: newestRoutes})
	if err != nil {
		return o, late(err)
	}
	for _, r := range page.Routes {
		o.routes[r.Route.Action.String()] = fmt.Sprintf("%s on %s, fence %d", routeState(r), r.Route.Replica, len(r.Attempts))
	}
	return o, nil
}

// spoken is the state of a replica in words, without what changes by itself.
func spoken(r *registry.ReplicaRecord) string {
	s := string(r.Live.Status)
	if r.Live.Status != fleet.ReplicaOffline && r.Live.Status != fleet.ReplicaRetired && !r.Live.Healthy {
		s += ", unhealthy"
	}
	if r.Live.Intent == fleet.IntentDrain {
		s += ", to be drained"
	}
	if r.Live.Circuit.State != fleet.CircuitClosed {
		s += ", circuit " + string(r.Live.Circuit.State)
	}
	return s
}

// Summary is the fleet in one line.
func (o Observed) Summary() string {
	s := o.status
	return fmt.Sprintf("revision %d: %d of %s ready, %d draining, %d offline; %d of %d reserved; %s; %d uncertain; %s open",
		s.Revision, s.Replicas[fleet.ReplicaReady], many(s.ReplicasDeclared, "replica", "replicas"), s.Replicas[fleet.ReplicaDraining],
		s.Replicas[fleet.ReplicaOffline], s.Active, s.Capacity, many(int(s.Routes), "route", "routes"), unresolved(s), many(s.CircuitsOpen, "circuit", "circuits"))
}

// At is the registry's time of the reading.
func (o Observed) At() time.Time { return o.status.At }

// Changes says in one line each what differs between two readings, in a stable order.
func Changes(before, after Observed) []string {
	var lines []string
	if a, b := before.status.Revision, after.status.Revision; a != b {
		lines = append(lines, fmt.Sprintf("catalog is at revision %d, was %d", b, a))
	}
	lines = append(lines, moved("replica", before.replicas, after.replicas)...)
	for _, id := range slices.Sorted(maps.Keys(before.replicas)) {
		if _, ok := after.replicas[id]; !ok {
			lines = append(lines, "replica "+id+" is gone")
		}
	}
	routes := moved("route", before.routes, after.routes)
	if n := len(routes); n > maxSpoken {
		routes = append(routes[:maxSpoken:maxSpoken], fmt.Sprintf("and %d more changes of routes", n-maxSpoken))
	}
	lines = append(lines, routes...)
	if a, b := unresolved(before.status), unresolved(after.status); a != b {
		lines = append(lines, fmt.Sprintf("uncertain attempts: %d, were %d", b, a))
	}
	return lines
}

func moved(noun string, before, after map[string]string) (lines []string) {
	for _, id := range slices.Sorted(maps.Keys(after)) {
		now, was := after[id], before[id]
		switch {
		case was == "":
			lines = append(lines, fmt.Sprintf("%s %s is new: %s", noun, id, now))
		case was != now:
			lines = append(lines, fmt.Sprintf("%s %s is %s, was %s", noun, id, now, was))
		}
	}
	return lines
}
