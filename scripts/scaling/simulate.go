package main

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
)

// demand is what all tenants ask for together.
type demand struct {
	actions, skew, beat       float64
	tenants, replicas, groups int
}

// machine is one database server.
type machine struct {
	cores                    int
	actionMicros, beatMicros float64
	bytes, tombstone, fill   float64
}

// carries is how many actions a second one server takes at its planned fill.
func (c machine) carries() float64 { return float64(c.cores) * 1e6 / c.actionMicros * c.fill }

func (d demand) beatCores(c machine) float64 {
	return float64(d.replicas) / d.beat * c.beatMicros / 1e6
}

// byGroup spreads the demand over tenants by the power law, and these over groups by
// hash: a group is fixed for ever, its cell is not.
func (d demand) byGroup(seed uint64) []float64 {
	shares, sum := make([]float64, d.tenants), 0.0
	for i := range shares {
		shares[i] = math.Pow(float64(i+1), -d.skew)
		sum += shares[i]
	}
	groups := make([]float64, d.groups)
	for i, s := range shares {
		groups[hash(fmt.Sprintf("%d tenant %d", seed, i))%uint64(d.groups)] += d.actions * s / sum
	}
	return groups
}

func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // does not fail
	x := h.Sum64()            // the last bytes of a text move few bits of FNV: mix them
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

func largest(groups []float64) float64 { return slices.Max(groups) }

type placement struct {
	cellOf  []int
	fullest float64
}

// place puts the largest group on the emptiest cell, again and again.
func place(groups []float64, cells int) placement {
	order := make([]int, len(groups))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(groups[b], groups[a]) })
	load, p := make([]float64, cells), placement{cellOf: make([]int, len(groups))}
	for _, g := range order {
		best := 0
		for c := range load {
			if load[c] < load[best] {
				best = c
			}
		}
		p.cellOf[g] = best
		load[best] += groups[g]
	}
	p.fullest = slices.Max(load)
	return p
}

// moved is the share of the demand that moves when one more cell is filled to the mean
// from the others, group by group and no further.
func moved(groups []float64, cells int) float64 {
	total := 0.0
	for _, g := range groups {
		total += g
	}
	target, p := total/float64(cells+1), place(groups, cells)
	spare := make([]float64, cells)
	for g, c := range p.cellOf {
		spare[c] += groups[g]
	}
	out := 0.0
	for g, c := range p.cellOf {
		if spare[c]-groups[g] >= target*0.98 && out+groups[g] <= target*1.02 {
			spare[c] -= groups[g]
			out += groups[g]
		}
	}
	return out / total
}

// waits is what a call meets in front of a server's processors.
type waits struct {
	busy, p50, p99 float64 // seconds
	over           bool
}

func (w waits) text(v float64) string {
	if w.over {
		return "grows without end"
	}
	return fmt.Sprintf("%.2f ms", 1000*v)
}

const arrivals = 200_000

// simulate runs a queue in virtual time: calls arrive at random, resolve and settle
// each take half of an action's processor time, any free core takes the next. Beats are
// a constant part of the processors. Locks, disk and network are not in it.
func simulate(actions float64, c machine, beatCores float64, seed uint64) waits {
	free := float64(c.cores) - beatCores
	service := c.actionMicros / 2 / 1e6 * float64(c.cores) / math.Max(free, 1e-9)
	rate := 2 * actions
	w := waits{busy: (rate*c.actionMicros/2/1e6 + beatCores) / float64(c.cores)}
	if w.busy >= 1 {
		w.over = true
		return w
	}
	rng := rand.New(rand.NewPCG(seed, 7))
	cores := make([]float64, c.cores) // when each is free
	now, all := 0.0, make([]float64, arrivals)
	for i := range all {
		now += rng.ExpFloat64() / rate
		next := 0
		for k := range cores {
			if cores[k] < cores[next] {
				next = k
			}
		}
		begin := math.Max(now, cores[next])
		cores[next] = begin + service
		all[i] = begin - now
	}
	slices.Sort(all)
	w.p50, w.p99 = all[arrivals/2], all[arrivals*99/100]
	return w
}
