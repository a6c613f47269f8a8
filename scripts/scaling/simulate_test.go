package main

import (
	"bytes"
	"math"
	"testing"
)

func defaults() (demand, machine) {
	return demand{actions: 4000, tenants: 5000, skew: 0.8, replicas: 10000, beat: 10, groups: 1024},
		machine{cores: 8, actionMicros: 300, beatMicros: 80, bytes: 1139, tombstone: 200, fill: 0.6}
}

// TestPlace_DemandIsKept: spreading loses and invents nothing, and more cells are never
// fuller.
func TestPlace_DemandIsKept(t *testing.T) {
	d, _ := defaults()
	groups, sum := d.byGroup(1), 0.0
	for _, g := range groups {
		sum += g
	}
	if math.Abs(sum-d.actions) > 1e-6 {
		t.Errorf("the groups ask for %f of %f", sum, d.actions)
	}
	before := math.Inf(1)
	for _, n := range []int{1, 2, 4, 8, 16} {
		p := place(groups, n)
		if p.fullest > before || p.fullest < d.actions/float64(n)-1e-6 {
			t.Errorf("with %d cells the fullest has %f, before %f", n, p.fullest, before)
		}
		before = p.fullest
	}
}

// TestSimulate_WaitsGrowWithLoadAndOverloadIsSaid compares a quiet, a busy and an
// overloaded server.
func TestSimulate_WaitsGrowWithLoadAndOverloadIsSaid(t *testing.T) {
	_, c := defaults()
	quiet, busy, over := simulate(c.carries()/4, c, 0, 1), simulate(c.carries()*1.6, c, 0, 1), simulate(c.carries()*2, c, 0, 1)
	if !(quiet.p99 < busy.p99) || quiet.over || busy.over || !over.over {
		t.Errorf("quiet %+v, busy %+v, over %+v", quiet, busy, over)
	}
}

// TestReport_SeedRepeats: the same inputs give the same bytes.
func TestReport_SeedRepeats(t *testing.T) {
	var one, two, none bytes.Buffer
	if run(nil, &one, &none) != 0 || run(nil, &two, &none) != 0 || one.String() != two.String() || one.Len() == 0 {
		t.Error("two runs differ")
	}
	if run([]string{"-cores", "0"}, &one, &none) == 0 {
		t.Error("a machine without cores was taken")
	}
}
