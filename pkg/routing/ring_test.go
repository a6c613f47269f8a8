package routing_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

// TestRing_G10_GoldenVectors pins the hash: another implementation, in SQL for
// instance, must give these numbers, and stored positions must stay right.
func TestRing_G10_GoldenVectors(t *testing.T) {
	key := routing.Key("golden key")
	for what, got := range map[string][2]int64{
		"replica":  {key.Replica(must(fleet.ParseReplicaID("crepl_a"))), goldenReplica},
		"instance": {key.Instance(must(fleet.ParseInstanceID("cinst_a"))), goldenInstance},
		"action":   {key.Action(must(fleet.ParseActionID("act_a"))), goldenAction},
		"draw":     {key.Draw(must(fleet.ParseActionID("act_a"))), goldenDraw},
		"no key":   {routing.Key(nil).Position("action", "act_a"), goldenNoKey},
	} {
		if got[0] != got[1] {
			t.Errorf("%s lies at %d, want %d", what, got[0], got[1])
		}
	}
}

func TestRing_G10_DistanceWrapsUpwards(t *testing.T) {
	for _, c := range [][3]int64{{0, 0, 0}, {5, 7, 2}, {7, 5, routing.RingSize - 2}, {routing.RingSize - 1, 0, 1}, {0, routing.RingSize - 1, routing.RingSize - 1}} {
		if got := routing.Distance(c[0], c[1]); got != c[2] {
			t.Errorf("from %d to %d are %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// Another key is another ring: a client that does not know it cannot aim.
func TestRing_G10_KeyDecides(t *testing.T) {
	a, b := routing.Key("one"), routing.Key("two")
	same := 0
	for i := range 200 {
		id := must(fleet.ParseReplicaID("crepl_" + string(rune('a'+i%26)) + string(rune('a'+i/26))))
		if a.Replica(id) == b.Replica(id) {
			same++
		}
		if p := a.Replica(id); p < 0 || p >= routing.RingSize {
			t.Fatalf("%s lies at %d", id, p)
		}
	}
	if same > 1 {
		t.Errorf("%d of 200 lie alike under two keys", same)
	}
}

func version(name string) fleet.VersionID { return must(fleet.ParseVersionID("cver_" + name)) }

func TestDrawOrder_G10_DrawsEachOnceAndSkipsWeightZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		point := rapid.Int64Range(0, routing.RingSize-1).Draw(t, "point")
		var versions []routing.Weighted
		positive := 0
		for i := range rapid.IntRange(0, 6).Draw(t, "n") {
			w := rapid.SampledFrom([]uint32{0, 1, 7, 100, 1 << 31, 1<<32 - 1}).Draw(t, "weight")
			versions = append(versions, routing.Weighted{Version: version(string(rune('a' + i))), Weight: w})
			if w > 0 {
				positive++
			}
		}
		before := slices.Clone(versions)
		order := routing.DrawOrder(point, versions)
		if !slices.Equal(before, versions) {
			t.Fatal("the input was changed")
		}
		if len(order) != positive {
			t.Fatalf("%d were drawn of %d", len(order), positive)
		}
		seen := map[fleet.VersionID]bool{}
		for _, v := range order {
			i := slices.IndexFunc(versions, func(w routing.Weighted) bool { return w.Version == v })
			if seen[v] || i < 0 || versions[i].Weight == 0 {
				t.Fatalf("drawn were %v", order)
			}
			seen[v] = true
		}
	})
}

func TestDrawOrder_G10_FollowsTheWeights(t *testing.T) {
	versions := []routing.Weighted{{Version: version("a"), Weight: 90}, {Version: version("b"), Weight: 10}}
	first := map[fleet.VersionID]int{}
	const n = 10_000
	for i := range int64(n) {
		first[routing.DrawOrder(i*(routing.RingSize/n), versions)[0]]++
	}
	if a := first[version("a")]; a < 8990 || a > 9010 {
		t.Errorf("at 90 of 100 a is drawn first %d times of %d", a, n)
	}
	if got := routing.DrawOrder(0, versions); !slices.Equal(got, []fleet.VersionID{version("a"), version("b")}) {
		t.Errorf("at 0 the order is %v", got)
	}
	if got := routing.DrawOrder(routing.RingSize-1, versions); got[0] != version("b") {
		t.Errorf("at the end the order is %v", got)
	}
}

// Computed apart from this code: the first four bytes of SHA-256, without the top bit.
const (
	goldenReplica  = 1389768401
	goldenInstance = 1545216368
	goldenAction   = 1764152735
	goldenDraw     = 1858917925
	goldenNoKey    = 1308939458
)
