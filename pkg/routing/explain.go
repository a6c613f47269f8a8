package routing

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// MaxExplained bounds how many candidates an explanation lists one by one; beyond
// it only the counts per reason, the survivors' first and the winner are given.
const MaxExplained = 1000

// Explanation says what a resolve would decide, and why.
type Explanation struct {
	Action     fleet.ActionID     `json:"action_id"`
	Capability fleet.CapabilityID `json:"capability_id"`
	Tenant     fleet.TenantID     `json:"tenant_id"`
	Revision   uint64             `json:"revision"`
	At         time.Time          `json:"at"`
	Pinned     *PinnedExplanation `json:"pinned,omitempty"` // the action has a route already
	Total      int                `json:"total"`
	Counts     map[Reason]int     `json:"counts"` // of removed candidates
	Candidates []Explained        `json:"candidates"`
	Winner     fleet.ReplicaID    `json:"winner"` // zero when none
	Refusal    *Refusal           `json:"refusal,omitempty"`
}

// Explained is one candidate with its verdict.
type Explained struct {
	Replica  fleet.ReplicaID    `json:"replica_id"`
	Instance fleet.InstanceID   `json:"instance_id"`
	Version  fleet.VersionID    `json:"version_id"`
	Removed  Reason             `json:"removed,omitempty"`
	Rank     int                `json:"rank,omitempty"` // 1 is the winner; 0 when removed
	Keys     fleet.OrderingKeys `json:"ordering_keys"`
	Distance int64              `json:"ring_distance"`
}

// PinnedExplanation says what a retry of a routed action would do now.
type PinnedExplanation struct {
	Replica  fleet.ReplicaID `json:"replica_id"`
	Reserved bool            `json:"reserved"`
	Removed  Reason          `json:"removed,omitempty"` // why the pinned replica could not be reserved now
}

// Refusal is the error a resolve would give.
type Refusal struct {
	Kind fleet.Kind `json:"kind"`
	Code string     `json:"code"`
	What string     `json:"what"`
}

// Explain judges every candidate. The caller fills Action, Capability, Revision and
// Pinned of the result.
func Explain(q Question, candidates []Candidate) Explanation {
	ordered, removed := Pick(q, candidates)
	e := Explanation{Tenant: q.Tenant, At: q.Now, Total: len(candidates), Counts: map[Reason]int{}}
	for i, c := range ordered {
		if i < MaxExplained {
			e.Candidates = append(e.Candidates, explained(q, c, i+1, Eligible))
		}
	}
	for i, c := range candidates {
		if r, gone := removed[i]; gone {
			e.Counts[r]++
			if len(candidates) <= MaxExplained {
				e.Candidates = append(e.Candidates, explained(q, c, 0, r))
			}
		}
	}
	if len(ordered) > 0 {
		e.Winner = ordered[0].Replica.ID
	}
	return e
}

func explained(q Question, c Candidate, rank int, why Reason) Explained {
	return Explained{
		Replica: c.Replica.ID, Instance: c.Replica.Instance, Version: c.Replica.Version,
		Removed: why, Rank: rank, Keys: Keys(q, c), Distance: Distance(q.Ring, c.Ring),
	}
}
