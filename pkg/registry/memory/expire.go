package memory

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/settlement"
)

// claimsKept is how long a request's repeat is recognised: well past the freshness
// that a signed message needs.
const claimsKept = 15 * time.Minute

// Expire implements registry.Fleet.
func (r *Registry) Expire(ctx context.Context, limit int) (registry.Expiry, error) {
	if limit < 1 {
		return registry.Expiry{}, fleet.Invalidf("expire.limit", "a maintenance pass handles at least 1, not %d", limit)
	}
	end, err := r.begin(ctx)
	if err != nil {
		return registry.Expiry{}, err
	}
	defer end()
	now := r.now()
	var done registry.Expiry
	done.Offline = r.markOffline(now, limit)
	done.Expired = r.release(now, limit, leaseExpired(), func(rec *registry.RouteRecord) bool {
		return !lease.Current(r.live[rec.Route.Replica], rec.Current().LeaseEpoch, now)
	})
	overdue := fleet.Settlement{Outcome: fleet.OutcomeUnknown, Code: settlement.CodeOverdue}
	done.Overdue = r.release(now, limit, overdue, func(rec *registry.RouteRecord) bool {
		return !rec.Current().Deadline.After(now)
	})
	done.More = max(done.Offline, done.Expired, done.Overdue) == limit
	for key, c := range r.claims {
		if now.Sub(c.at) > claimsKept {
			delete(r.claims, key)
		}
	}
	return done, nil
}

func (r *Registry) markOffline(now time.Time, limit int) int {
	var over []fleet.ReplicaID
	for id, live := range r.live {
		if live.Status != fleet.ReplicaOffline && live.Status != fleet.ReplicaRetired && !lease.Alive(live, now) {
			over = append(over, id)
		}
	}
	sortIDs(over)
	over = over[:min(len(over), limit)]
	for _, id := range over {
		r.live[id] = lease.Offline(r.live[id], now)
		r.leaseEvent(now, id, "expired", "")
	}
	return len(over)
}

// release settles reserved attempts that match, at most limit, in the order of their ids.
func (r *Registry) release(now time.Time, limit int, s fleet.Settlement, match func(*registry.RouteRecord) bool) int {
	var over []fleet.ActionID
	for id := range r.reserved {
		if match(r.routes[id]) {
			over = append(over, id)
		}
	}
	sortIDs(over)
	over = over[:min(len(over), limit)]
	for _, id := range over {
		r.settle(r.routes[id], s, now)
	}
	return len(over)
}

func sortIDs[I interface{ String() string }](ids []I) {
	slices.SortFunc(ids, func(a, b I) int { return strings.Compare(a.String(), b.String()) })
}
