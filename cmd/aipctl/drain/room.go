package drain

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/impact"
	"github.com/aipfleet/aipfleet/cmd/aipctl/publish"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// codeFull is of a replica that was not begun for the sake of its instance.
const codeFull = "drain.max_unavailable"

// leave is how many of n replicas may be out of routing by --max-unavailable: a number,
// or a share that is rounded down and is at least one.
func leave(text string, n int) (int, error) {
	number, isShare := strings.CutSuffix(text, "%")
	value, err := strconv.Atoi(number)
	if err != nil || value < 1 || isShare && value > 100 {
		return 0, app.Usagef("usage.max_unavailable", "--max-unavailable %q is not a number above 0, or 1%% to 100%%", fleet.Printable(text, 32))
	}
	if isShare {
		return max(n*value/100, 1), nil
	}
	return value, nil
}

// room is how many more replicas of each instance may leave routing. What took the
// others out does not matter: an operator, a crash, a connector that is not up. Nil is
// room for all.
type room struct {
	of   map[fleet.ReplicaID]fleet.InstanceID
	stay map[fleet.InstanceID]int // that have to stay in routing
	left map[fleet.InstanceID]int // above that, as it was last seen
	used map[fleet.ReplicaID]bool // is in routing, as it was last seen
}

// newRoom fixes what has to stay, by what is declared now and not retired.
func newRoom(text string, all []registry.ReplicaRecord) (*room, error) {
	if text == "" {
		return nil, nil
	}
	r := &room{
		of: map[fleet.ReplicaID]fleet.InstanceID{}, stay: map[fleet.InstanceID]int{},
		left: map[fleet.InstanceID]int{}, used: map[fleet.ReplicaID]bool{},
	}
	for _, one := range all {
		r.of[one.ID] = one.Instance
		if one.Live.Status != fleet.ReplicaRetired {
			r.stay[one.Instance]++
		}
	}
	for instance, n := range r.stay {
		may, err := leave(text, n)
		if err != nil {
			return nil, err
		}
		r.stay[instance] = n - may
	}
	return r, nil
}

// see counts anew what of the instances of some replicas is in routing.
func (r *room) see(ctx context.Context, reader registry.Reader, ids []fleet.ReplicaID, now func() time.Time) error {
	if r == nil {
		return nil
	}
	seen := map[fleet.InstanceID]bool{}
	for _, id := range ids {
		instance := r.of[id]
		if seen[instance] {
			continue
		}
		seen[instance] = true
		page, err := publish.ReadAll(ctx, reader, registry.Selection{Noun: registry.Replicas, Instance: instance})
		if err != nil {
			return err
		}
		r.left[instance] = -r.stay[instance]
		for _, one := range page.Replicas {
			r.used[one.ID] = impact.Serving(one) && one.Live.LeaseExpiresAt.After(now())
			if r.used[one.ID] {
				r.left[instance]++
			}
		}
	}
	return nil
}

// take lets one replica leave, or says why it has to wait. One that is out of routing
// already takes nothing from the others.
func (r *room) take(id fleet.ReplicaID) *Failure {
	if r == nil || !r.used[id] {
		return nil
	}
	instance := r.of[id]
	if r.left[instance] < 1 {
		return &Failure{
			Code: codeFull, Message: fmt.Sprintf("%d of %s have to stay in routing", r.stay[instance], instance),
			Next: "bring others of the instance back, or declare more of them; then repeat the command",
		}
	}
	r.left[instance]--
	r.used[id] = false
	return nil
}
