package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Names of the seeded databases.
const (
	siteMain  = "bench_main"
	siteRiver = "river"
)

// Groups of the main database.
const (
	groupBase   = "base"   // 1000 tenants, 10 000 replicas, 100 000 bindings
	groupHot10  = "hot10"  // one tenant, ten replicas
	groupHot200 = "hot200" // one tenant, two hundred
)

// roomy is a capacity that the load never fills.
const roomy = 1000

func mainShape(history int) shape {
	groups := []group{
		{name: groupBase, tenants: 1000, instances: 2, replicas: 5, capabilities: 50, capacity: 64},
		{name: groupHot10, tenants: 1, instances: 2, replicas: 5, capabilities: 1, capacity: roomy},
		{name: groupHot200, tenants: 1, instances: 2, replicas: 100, capabilities: 1, capacity: roomy},
	}
	for _, n := range []int{1, 4, 20, 100} {
		groups = append(groups, group{name: fewName(n), tenants: 1, instances: 1, replicas: n, capabilities: 1, capacity: roomy})
	}
	for _, n := range fanouts() {
		groups = append(groups, group{name: fanName(n), tenants: 1, instances: 1, replicas: n, capabilities: 1, capacity: roomy, unlimited: true})
	}
	return shape{groups: groups, history: history}
}

func fanouts() []int       { return []int{10, 100, 1000, 10_000} }
func fewName(n int) string { return fmt.Sprintf("few%d", n) }
func fanName(n int) string { return fmt.Sprintf("fan%d", n) }

// scope is what one run measures.
type scope struct {
	quick    bool
	cases    []string // empty is all
	clients  []int    // overrides those of the cases; empty keeps them
	variants []string // empty is all
}

func (c scope) wants(name string) bool { return len(c.cases) == 0 || slices.Contains(c.cases, name) }

// choose returns the client counts of a case: the quick ones or all.
func (c scope) choose(quick, full []int) []int {
	switch {
	case len(c.clients) > 0:
		return c.clients
	case c.quick:
		return quick
	}
	return full
}

func (c scope) points(quick, full []int) []int {
	if c.quick {
		return quick
	}
	return full
}

// experiments lists everything that is measured in rounds. Sites are only declared
// here; those that are used are seeded afterwards.
func (b *bench) experiments() []experiment {
	var all []experiment
	for _, add := range []func() []experiment{
		b.uniform, b.hotTenant, b.skewedTenant, b.fewReplicas, b.fanout, b.growthReplicas, b.growthRoutes, b.growthBindings,
		b.publishUnderLoad, b.heartbeats, b.river,
	} {
		all = append(all, add()...)
	}
	return all
}

func (b *bench) experiment(name string, clients int, arms ...arm) experiment {
	return experiment{name: name, clients: clients, arms: arms, rounds: b.plan.rounds, window: b.plan.window}
}

// floorArm is the yardstick of a case.
func (b *bench) floorArm() arm {
	s := b.site(siteMain)
	return arm{variant: variantFloor, open: openFloor, site: s, pick: s.shape.group(groupBase).uniform()}
}

// everyArm is every variant on one load, the floor included.
func (b *bench) everyArm(s *site, point string, pick picker) []arm {
	arms := []arm{}
	for _, v := range variants() {
		if v.name == variantFloor {
			arms = append(arms, b.floorArm())
		} else if b.scope.has(v.name) {
			arms = append(arms, arm{point: point, variant: v.name, open: v.open, site: s, pick: pick})
		}
	}
	return arms
}

// routerArms is every variant of the registry itself on one load.
func (b *bench) routerArms(s *site, point string, pick picker) []arm {
	return slices.DeleteFunc(b.everyArm(s, point, pick), func(a arm) bool {
		return a.variant == variantFloor || a.variant == variantStatements
	})
}

func (c scope) has(variant string) bool {
	return len(c.variants) == 0 || slices.Contains(c.variants, variant)
}

func (b *bench) uniform() (all []experiment) {
	if !b.scope.wants("uniform") {
		return nil
	}
	s := b.site(siteMain)
	pick := s.shape.group(groupBase).uniform()
	for _, clients := range b.scope.choose([]int{8, 32, 64}, []int{1, 8, 32, 64, 128}) {
		arms := b.everyArm(s, "", pick)
		if !b.scope.quick && b.scope.has(variantWrites) {
			arms = append(arms, arm{variant: variantWrites, open: openWrites, site: s, pick: pick})
		}
		all = append(all, b.experiment("uniform", clients, arms...))
	}
	return all
}

func (b *bench) hotTenant() (all []experiment) {
	s := b.site(siteMain)
	if b.scope.wants("hot_tenant") {
		for _, clients := range b.scope.choose([]int{8, 32, 64}, []int{1, 8, 32, 64, 128}) {
			all = append(all, b.experiment("hot_tenant", clients, b.everyArm(s, "replicas=10", s.shape.group(groupHot10).uniform())...))
		}
	}
	if b.scope.wants("hot_tenant_200") {
		for _, clients := range b.scope.choose([]int{64}, []int{8, 64, 128}) {
			arms := append([]arm{b.floorArm()}, b.routerArms(s, "replicas=200", s.shape.group(groupHot200).uniform())...)
			all = append(all, b.experiment("hot_tenant_200", clients, arms...))
		}
	}
	return all
}

func (b *bench) skewedTenant() (all []experiment) {
	if !b.scope.wants("skewed") {
		return nil
	}
	s := b.site(siteMain)
	base, hot := s.shape.group(groupBase), s.shape.group(groupHot200)
	for _, clients := range b.scope.choose([]int{64}, []int{8, 64}) {
		arms := append([]arm{b.floorArm()}, b.routerArms(s, "share=0.2", skewed(0.2, hot, base))...)
		all = append(all, b.experiment("skewed", clients, append(arms, b.routerArms(s, "share=0", base.uniform())...)...))
	}
	return all
}

func (b *bench) fewReplicas() (all []experiment) {
	if !b.scope.wants("few_replicas") {
		return nil
	}
	s := b.site(siteMain)
	for _, clients := range b.scope.choose([]int{64}, []int{64}) {
		arms := []arm{b.floorArm()}
		for _, n := range b.scope.points([]int{4}, []int{1, 4, 20, 100}) {
			arms = append(arms, b.routerArms(s, fmt.Sprintf("replicas=%d", n), s.shape.group(fewName(n)).uniform())...)
		}
		all = append(all, b.experiment("few_replicas", clients, arms...))
	}
	return all
}

func (b *bench) fanout() (all []experiment) {
	if !b.scope.wants("fanout") {
		return nil
	}
	s := b.site(siteMain)
	for _, clients := range b.scope.choose([]int{1}, []int{1, 8}) {
		arms := []arm{b.floorArm()}
		for _, n := range b.scope.points([]int{10, 10_000}, fanouts()) {
			arms = append(arms, b.routerArms(s, fmt.Sprintf("replicas_per_instance=%d", n), s.shape.group(fanName(n)).uniform())...)
		}
		all = append(all, b.experiment("fanout", clients, arms...))
	}
	return all
}

// grown is one size of a fleet that grows.
type grown struct {
	point string
	shape shape
}

// growth compares sizes of a fleet, each in a database of its own.
func (b *bench) growth(name string, sizes []grown) (all []experiment) {
	if !b.scope.wants(name) {
		return nil
	}
	for _, clients := range b.scope.choose([]int{1}, []int{1, 32}) {
		arms := []arm{b.floorArm()}
		for i, size := range sizes {
			s := b.declare(fmt.Sprintf("%s_%d", name, i), size.shape)
			arms = append(arms, b.routerArms(s, size.point, size.shape.groups[0].uniform())...)
		}
		all = append(all, b.experiment(name, clients, arms...))
	}
	return all
}

func (b *bench) growthReplicas() []experiment {
	var sizes []grown
	for _, n := range b.scope.points([]int{100, 100_000}, []int{100, 1000, 10_000, 100_000}) {
		g := group{name: groupBase, tenants: n / 10, instances: 2, replicas: 5, capabilities: 2, capacity: 64}
		sizes = append(sizes, grown{fmt.Sprintf("replicas=%d", n), shape{groups: []group{g}}})
	}
	return b.growth("growth_replicas", sizes)
}

func (b *bench) growthRoutes() []experiment {
	g := group{name: groupBase, tenants: 200, instances: 2, replicas: 5, capabilities: 10, capacity: 64}
	var sizes []grown
	for _, n := range b.scope.points([]int{0, 100_000}, []int{0, 100_000, 1_000_000, 10_000_000}) {
		sizes = append(sizes, grown{fmt.Sprintf("routes=%d", n), shape{groups: []group{g}, history: n}})
	}
	return b.growth("growth_routes", sizes)
}

func (b *bench) growthBindings() []experiment {
	var sizes []grown
	for _, n := range b.scope.points([]int{1, 20}, []int{1, 10, 100}) {
		g := group{name: groupBase, tenants: 500, instances: 2, replicas: 5, capabilities: n, capacity: 64}
		sizes = append(sizes, grown{fmt.Sprintf("bindings=%d", 1000*n), shape{groups: []group{g}}})
	}
	return b.growth("growth_bindings", sizes)
}

func (b *bench) publishUnderLoad() (all []experiment) {
	if !b.scope.wants("publish_under_load") {
		return nil
	}
	s := b.site(siteMain)
	for _, clients := range b.scope.choose([]int{32}, []int{8, 32, 64}) {
		all = append(all, b.experiment("publish_under_load", clients, b.besideArms(s, "publishing", publishing)...))
	}
	return all
}

// besideArms is the uniform load, quiet and with something going on beside it.
func (b *bench) besideArms(s *site, point string, background func(context.Context, *site) (func() map[string]float64, error)) []arm {
	pick := s.shape.group(groupBase).uniform()
	arms := append([]arm{b.floorArm()}, b.routerArms(s, "quiet", pick)...)
	for _, a := range b.routerArms(s, point, pick) {
		a.background = background
		arms = append(arms, a)
	}
	return arms
}

func (b *bench) heartbeats() (all []experiment) {
	s := b.site(siteMain)
	if b.scope.wants("heartbeats") {
		for _, clients := range b.scope.choose([]int{16}, []int{1, 16}) {
			renew := arm{point: "replicas=10000", variant: "renew", open: openBeats, site: s, pick: s.shape.group(groupBase).uniform()}
			e := b.experiment("heartbeats", clients, b.floorArm(), renew)
			e.after = b.restoreLeases(s)
			all = append(all, e)
		}
	}
	if b.scope.wants("route_under_heartbeats") {
		for _, clients := range b.scope.choose([]int{32}, []int{32}) {
			e := b.experiment("route_under_heartbeats", clients, b.besideArms(s, "beats=1000/s", beating)...)
			e.after = b.restoreLeases(s)
			all = append(all, e)
		}
	}
	return all
}

func (b *bench) river() (all []experiment) {
	if !b.scope.wants("river") {
		return nil
	}
	s := b.site(siteMain)
	pick := s.shape.group(groupBase).uniform()
	for _, clients := range b.scope.choose([]int{32}, []int{1, 8, 32, 64, 128}) {
		arms := append([]arm{b.floorArm()}, b.routerArms(s, "", pick)...)
		jobs := arm{variant: "river", open: openRiver, site: b.declare(siteRiver, shape{}), pick: pick}
		all = append(all, b.experiment("river", clients, append(arms, jobs)...))
	}
	return all
}

// planOf says how long the run takes: a quick one under three minutes.
func planOf(quick bool) plan {
	if quick {
		return plan{rounds: 3, window: window{80 * time.Millisecond, 420 * time.Millisecond}, warmUp: 150 * time.Millisecond}
	}
	return plan{rounds: 5, window: window{400 * time.Millisecond, 3 * time.Second}, warmUp: time.Second}
}

// quickLimit is when a quick run has to be over; reserve is what comes after the rounds.
const (
	quickLimit  = 165 * time.Second
	reserve     = 15 * time.Second
	shortest    = 150 * time.Millisecond // of a slice that says anything
	perSlice    = 30 * time.Millisecond  // beside the window
	perArmSetup = 100 * time.Millisecond // beside the warm-up
)

// fit shortens the slices of a quick run to the time that seeding left.
func (p plan) fit(list []experiment, left time.Duration) window {
	slices := 0
	left -= reserve
	for _, e := range list {
		slices += e.rounds * len(e.arms)
		left -= time.Duration(len(e.arms)) * (p.warmUp + perArmSetup)
	}
	if slices == 0 {
		return p.window
	}
	measured := left/time.Duration(slices) - p.window.ramp - perSlice
	return window{p.window.ramp, min(max(measured, shortest), p.window.measured)}
}
