package registrytest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/catalog"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

func orderCases() []Case {
	return []Case{
		{Name: "G10/priority_before_region_before_zone_before_load", Why: "operators plan capacity by this order; another one surprises them", Run: orderKeys},
		{Name: "G10/fewest_active_then_ring", Why: "among equals work must spread, and not where a client aims it", Run: orderRing},
		{Name: "G10/winner_is_that_of_routing_on_random_fleets", Why: "two stores that choose differently make one of them wrong", Run: orderRandom},
		{Name: "G10/version_is_drawn_by_weight", Why: "a rollout at ten per cent must take ten per cent", Run: orderWeights},
		{Name: "G10/next_version_only_when_the_drawn_one_yields_nothing", Why: "weights must not refuse work that another version could take, nor leak past a version that can", Run: orderFallback},
		{Name: "G40/explain_counts_what_it_does_not_list", Why: "with a thousand replicas an operator needs the reasons counted, and the winner still named", Run: orderCounts},
	}
}

// orderCounts asks about more replicas than are listed: of those that are removed there are
// counts only, and the survivors are all named.
func orderCounts(w *World) {
	const declared, ready = routing.MaxExplained + 10, 4
	replicas := make([]fleet.Replica, declared)
	for n := range replicas {
		replicas[n] = member(fmt.Sprintf("n%d", n), account(1), "north", "a")
	}
	w.fleetOf(replicas[:ready], map[fleet.InstanceID]uint32{account(1): 1})
	w.publish(registry.ChangeSet{Replicas: replicas[ready:]})
	w.intend(replicas[0].ID, fleet.IntentDrain)
	e, err := w.Router.Explain(w.ctx(), request("one"))
	w.must(err, "explain")
	w.expect(e.Total == declared, "%d of %d candidates were judged", e.Total, declared)
	w.expect(e.Counts[routing.DrainIntent]+e.Counts[routing.Draining] == 1 && e.Counts[routing.LeaseExpired]+e.Counts[routing.Offline] == declared-ready, "counts %v", e.Counts)
	w.expect(len(e.Candidates) == ready-1, "%d candidates are listed beside the counts", len(e.Candidates))
	for i, c := range e.Candidates {
		w.expect(c.Rank == i+1 && c.Removed == "", "the list has %+v", c)
	}
	w.expect(w.resolve("one").Route.Replica == e.Winner, "%s was foreseen, another one won", e.Winner)
}

// fleetOf publishes acme's replicas as given, each at the named account and priority.
func (w *World) fleetOf(replicas []fleet.Replica, priorities map[fleet.InstanceID]uint32) {
	w.Helper()
	w.publish(registry.ChangeSet{Types: []fleet.ConnectorType{deskType()}, Trust: trustOne()})
	w.admit(deskVersion(1))
	w.admit(deskVersion(2))
	set := registry.ChangeSet{Replicas: replicas}
	for id, priority := range priorities {
		i, b := deskInstance(acme()), deskBinding(acme(), open())
		i.ID, b.Instance, b.Priority = id, id, priority
		i.Serving = []fleet.ServingVersion{{Version: versionID(1), Weight: 70}}
		if slices.ContainsFunc(replicas, func(r fleet.Replica) bool { return r.Version == versionID(2) }) {
			i.Serving = append(i.Serving, fleet.ServingVersion{Version: versionID(2), Weight: 30})
		}
		set.Instances, set.Bindings = append(set.Instances, i), append(set.Bindings, b)
	}
	w.publish(set)
	for _, r := range replicas {
		w.register(r.ID)
	}
}

func account(n int) fleet.InstanceID {
	return parsed(fleet.ParseInstanceID(fmt.Sprintf("cinst_acme%d", n)))
}

func member(name string, at fleet.InstanceID, region, zone string) fleet.Replica {
	r := deskReplica(acme(), name)
	r.Instance, r.Topology.Region, r.Topology.Zone = at, region, zone
	return r
}

func orderKeys(w *World) {
	w.fleetOf([]fleet.Replica{
		member("far", account(1), "south", "a"), member("region", account(2), "north", "x"),
		member("zone", account(2), "north", "a"), member("zone2", account(2), "north", "a"),
	}, map[fleet.InstanceID]uint32{account(1): 1, account(2): 2})
	near := fleet.TopologyPreference{Region: "north", Zone: "a"}
	choose := func(action string) string {
		w.Helper()
		req := request(action)
		req.Topology = near
		a, err := w.Router.Resolve(w.ctx(), req)
		w.must(err, "resolve")
		return strings.TrimPrefix(a.Route.Replica.String(), "crepl_acme_")
	}
	for i := range 4 {
		w.expect(choose(fmt.Sprintf("p%d", i)) == "far", "a better priority elsewhere lost to a nearer replica")
	}
	got := []string{}
	for i := range 8 {
		got = append(got, choose(fmt.Sprintf("z%d", i)))
	}
	for i := 0; i < 8; i += 2 {
		pair := []string{got[i], got[i+1]}
		slices.Sort(pair)
		w.expect(slices.Equal(pair, []string{"zone", "zone2"}), "choices %d and %d are %v, want each replica of the zone once", i, i+1, pair)
	}
	w.expect(choose("r") == "region", "with the zone full the region's other replica did not win")
}

func orderRing(w *World) {
	key := routing.Key(w.RingKey)
	var replicas []fleet.Replica
	for i := range 6 {
		replicas = append(replicas, member(fmt.Sprintf("n%d", i), account(1), "north", "a"))
	}
	w.fleetOf(replicas, map[fleet.InstanceID]uint32{account(1): 1})
	seen := map[fleet.ReplicaID]bool{}
	for i := range 24 {
		name := fmt.Sprintf("act%d", i)
		best := slices.MinFunc(replicas, func(a, b fleet.Replica) int {
			at := key.Action(actionID(name))
			return int(routing.Distance(at, key.Replica(a.ID)) - routing.Distance(at, key.Replica(b.ID)))
		})
		a := w.resolve(name)
		w.expect(a.Route.Replica == best.ID, "%s went to %s, the ring says %s", name, a.Route.Replica, best.ID)
		seen[a.Route.Replica] = true
		w.settle(a, fleet.OutcomeCompleted)
	}
	w.expect(len(seen) > 1, "every action went to one replica")
}

// foreseen computes the winner from a snapshot, by package routing alone.
func (w *World) foreseen(req registry.RouteRequest) (winner fleet.ReplicaID, ok bool) {
	w.Helper()
	s, key := w.snapshot(), routing.Key(w.RingKey)
	versions, instances := map[fleet.VersionID]fleet.ConnectorVersion{}, map[fleet.InstanceID]fleet.ConnectorInstance{}
	for _, v := range s.Versions {
		versions[v.ID] = v
	}
	for _, i := range s.Instances {
		instances[i.ID] = i
	}
	var candidates []routing.Candidate
	for _, b := range s.Bindings {
		if b.Tenant != req.Tenant || b.Capability != req.Capability {
			continue
		}
		i := instances[b.Instance]
		order := drawOrder(key, req.Action, i)
		for _, r := range s.Replicas {
			if r.Instance != b.Instance || !catalog.Lists(i, r.Version) {
				continue
			}
			v := versions[r.Version]
			candidates = append(candidates, routing.Candidate{
				Replica: r.Replica, Live: r.Live, Ring: key.Replica(r.ID),
				Chain: routing.Chain{
					Binding: b, Tenant: i.Tenant, Enabled: i.Enabled, Type: i.Type, TypeEnabled: s.Types[0].Enabled,
					Version: v.ID, Status: v.Status, Qualified: v.Attestation.Qualified, Implements: catalog.Implements(v, b.Capability),
					Weight: catalog.Weight(i, v.ID), DrawRank: slices.Index(order, v.ID),
					Circuit: fleet.CircuitPolicy{FailureThreshold: 5, OpenMillis: 30_000, HalfOpenProbes: 1},
				},
			})
		}
	}
	q := routing.Question{Tenant: req.Tenant, Topology: req.Topology, Ring: key.Action(req.Action), Now: s.At}
	ordered, _ := routing.Pick(q, candidates)
	if len(ordered) == 0 {
		return fleet.ReplicaID{}, false
	}
	return ordered[0].Replica.ID, true
}

func drawOrder(key routing.Key, action fleet.ActionID, i fleet.ConnectorInstance) []fleet.VersionID {
	var versions []routing.Weighted
	for _, s := range i.Serving {
		versions = append(versions, routing.Weighted{Version: s.Version, Weight: s.Weight})
	}
	slices.SortFunc(versions, func(a, b routing.Weighted) int { return strings.Compare(a.Version.String(), b.Version.String()) })
	return routing.DrawOrder((key.Draw(action)+key.Instance(i.ID))%routing.RingSize, versions)
}

func orderRandom(w *World) {
	const seed = 20300101
	rng := rand.New(rand.NewPCG(seed, 1))
	labels := []string{"a", "b", "c"}
	var replicas []fleet.Replica
	for i := range 18 {
		r := member(fmt.Sprintf("n%d", i), account(1+rng.IntN(3)), labels[rng.IntN(2)], labels[rng.IntN(3)])
		r.Version, r.Capacity = versionID(1+rng.IntN(2)), uint32(1+rng.IntN(3))
		r.Topology.CapacityClass = []string{"standard", "large"}[rng.IntN(2)]
		replicas = append(replicas, r)
	}
	w.fleetOf(replicas, map[fleet.InstanceID]uint32{account(1): 5, account(2): 5, account(3): 7})
	var held []fleet.Assignment
	refused := 0
	for n := range 120 {
		req := request(fmt.Sprintf("n%d", n))
		req.Topology = fleet.TopologyPreference{Region: pickOne(rng, "", "a", "b"), Zone: pickOne(rng, "", "a", "b", "c"), CapacityClass: pickOne(rng, "", "", "large"), ForbidCrossRegion: rng.IntN(4) == 0}
		want, ok := w.foreseen(req)
		a, err := w.Router.Resolve(w.ctx(), req)
		if (err == nil) != ok || ok && a.Route.Replica != want {
			w.Fatalf("seed %d, action %d: resolve gives %s (%v), routing names %s", seed, n, a.Route.Replica, err, want)
		}
		if err != nil {
			refused++
			w.refused(err, fleet.ReplicaUnavailable, "")
		} else {
			held = append(held, a)
		}
		w.disturb(rng, replicas, &held)
	}
	w.expect(refused > 0 && refused < 60, "%d of 120 were refused: the fleet was never full, or always", refused)
}

func pickOne(rng *rand.Rand, of ...string) string { return of[rng.IntN(len(of))] }

// disturb changes the fleet between two decisions.
func (w *World) disturb(rng *rand.Rand, replicas []fleet.Replica, held *[]fleet.Assignment) {
	w.Helper()
	r := replicas[rng.IntN(len(replicas))].ID
	switch n := rng.IntN(10); {
	case n < 4 && len(*held) > 0:
		i := rng.IntN(len(*held))
		w.settle((*held)[i], fleet.OutcomeCompleted)
		*held = slices.Delete(*held, i, i+1)
	case n == 4:
		w.intend(r, fleet.IntentDrain)
	case n == 5:
		w.intend(r, fleet.IntentRun)
	case n == 6:
		w.advance(time.Second)
		w.beat(r)
	}
}

func orderWeights(w *World) {
	a, b := member("v1", account(1), "north", "a"), member("v2", account(1), "north", "a")
	b.Version = versionID(2)
	w.fleetOf([]fleet.Replica{a, b}, map[fleet.InstanceID]uint32{account(1): 1})
	key, counts := routing.Key(w.RingKey), map[fleet.VersionID]int{}
	instance := w.instance(account(1))
	for i := range 80 {
		got := w.resolve(fmt.Sprintf("n%d", i))
		want := drawOrder(key, got.Route.Action, instance)[0]
		w.expect(got.Route.Version == want, "action %d was drawn version %s, the draw says %s", i, got.Route.Version, want)
		counts[got.Route.Version]++
		w.settle(got, fleet.OutcomeCompleted)
	}
	w.expect(counts[versionID(1)] > counts[versionID(2)] && counts[versionID(2)] > 5, "with weights 70 and 30 the versions took %v", counts)
	instance.ConfigRevision, instance.Serving[0].Weight = 2, 0
	w.publish(registry.ChangeSet{Instances: []fleet.ConnectorInstance{instance}})
	for i := range 20 {
		got := w.resolve(fmt.Sprintf("m%d", i))
		w.expect(got.Route.Version == versionID(2), "a version of weight 0 took action %d", i)
		w.settle(got, fleet.OutcomeCompleted)
	}
}

func orderFallback(w *World) {
	a, b := member("v1", account(1), "north", "a"), member("v2", account(1), "north", "a")
	b.Version, a.Capacity, b.Capacity = versionID(2), 3, 3
	w.fleetOf([]fleet.Replica{a, b}, map[fleet.InstanceID]uint32{account(1): 1})
	key, instance := routing.Key(w.RingKey), w.instance(account(1))
	taken := map[fleet.VersionID]int{}
	for i := range 6 {
		got := w.resolve(fmt.Sprintf("n%d", i))
		order := drawOrder(key, got.Route.Action, instance)
		want := order[0]
		if taken[want] == 3 {
			want = order[1]
		}
		w.expect(got.Route.Version == want, "action %d went to %s, want %s", i, got.Route.Version, want)
		taken[got.Route.Version]++
	}
	_, err := w.try("n6")
	w.refused(err, fleet.ReplicaUnavailable, "")
}
