package tui

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// drain is how far the draining replicas have come, as observed (G37).
type drain struct {
	Wanted       int    `json:"wanted"`       // replicas that drain, by intent or by their host
	Drained      int    `json:"drained"`      // of them: take no work and hold none
	Reservations uint64 `json:"reservations"` // that the others still hold
}

// leaving reports whether a replica is on its way out.
func leaving(r *registry.ReplicaRecord) bool {
	return r.Live.Intent == fleet.IntentDrain || r.Live.Status == fleet.ReplicaDraining
}

// drained reports whether a replica takes no work and holds none: never from the
// operator's intent, only from its lease and its reservations.
func drained(r *registry.ReplicaRecord, now time.Time) bool {
	stopped := r.Live.Status != fleet.ReplicaReady || !r.Live.LeaseExpiresAt.After(now)
	return stopped && r.Live.Active == 0
}

func drainOf(rows []row[registry.ReplicaRecord], now time.Time) (d drain) {
	for i := range rows {
		r := rows[i].item
		if !leaving(r) {
			continue
		}
		d.Wanted++
		d.Reservations += uint64(r.Live.Active)
		if drained(r, now) {
			d.Drained++
		}
	}
	return d
}
