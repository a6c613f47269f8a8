package routing

import (
	"cmp"
	"slices"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Keys returns the candidate's ordering keys for the question.
func Keys(q Question, c Candidate) fleet.OrderingKeys {
	t := c.Replica.Topology
	return fleet.OrderingKeys{
		Priority:     c.Chain.Binding.Priority,
		RegionMatch:  q.Topology.Region != "" && q.Topology.Region == t.Region,
		ZoneMatch:    q.Topology.Zone != "" && q.Topology.Zone == t.Zone,
		ActiveBefore: c.Live.Active,
	}
}

// Compare orders two eligible candidates (G10): priority; region match; zone match;
// fewer active; distance on the ring; instance id; replica id.
func Compare(q Question, a, b Candidate) int {
	ka, kb := Keys(q, a), Keys(q, b)
	return cmp.Or(
		cmp.Compare(ka.Priority, kb.Priority),
		trueFirst(ka.RegionMatch, kb.RegionMatch),
		trueFirst(ka.ZoneMatch, kb.ZoneMatch),
		cmp.Compare(ka.ActiveBefore, kb.ActiveBefore),
		cmp.Compare(Distance(q.Ring, a.Ring), Distance(q.Ring, b.Ring)),
		cmp.Compare(a.Replica.Instance.String(), b.Replica.Instance.String()),
		cmp.Compare(a.Replica.ID.String(), b.Replica.ID.String()),
	)
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// Pick filters, keeps the versions of the lowest draw rank that yields anything,
// and returns what is left in order; the first is the winner. Every candidate that
// is not returned has an entry in removed, by its index in candidates.
func Pick(q Question, candidates []Candidate) (ordered []Candidate, removed map[int]Reason) {
	removed = make(map[int]Reason)
	best := -1
	for i, c := range candidates {
		if r := Filter(q, c); r != Eligible {
			removed[i] = r
		} else if best < 0 || c.Chain.DrawRank < best {
			best = c.Chain.DrawRank
		}
	}
	for i, c := range candidates {
		switch _, gone := removed[i]; {
		case gone:
		case c.Chain.DrawRank != best:
			removed[i] = NotDrawn
		default:
			ordered = append(ordered, c)
		}
	}
	slices.SortFunc(ordered, func(a, b Candidate) int { return Compare(q, a, b) })
	return ordered, removed
}
