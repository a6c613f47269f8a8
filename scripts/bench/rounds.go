package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// arm is one thing that is measured in every round of a case.
type arm struct {
	point      string // what is varied besides the variant; "" when nothing is
	variant    string
	open       opener
	site       *site
	pick       picker
	background func(ctx context.Context, s *site) (stop func() map[string]float64, err error) // goes on beside it; nil is nothing
}

// experiment is the arms that are compared with each other: run in turn, in another
// order each round, and each set against the floor of its own round.
type experiment struct {
	name    string
	clients int
	arms    []arm
	rounds  int
	window  window
	after   func(ctx context.Context) error // puts back what the arms moved; nil is nothing
}

// row is one line of the result.
type row struct {
	Case         string  `json:"case"`
	Point        string  `json:"point,omitempty"`
	Variant      string  `json:"variant"`
	Clients      int     `json:"clients"`
	OpsPerSecond float64 `json:"ops_per_s"`
	Ratio        float64 `json:"ratio_to_floor"`
	RatioLow     float64 `json:"ratio_min,omitempty"`
	RatioHigh    float64 `json:"ratio_max,omitempty"`
	P50          float64 `json:"p50_ms"`
	P99          float64 `json:"p99_ms"`
	SettleP50    float64 `json:"settle_p50_ms,omitempty"`
	SettleP99    float64 `json:"settle_p99_ms,omitempty"`
	HotP99       float64 `json:"hot_p99_ms,omitempty"`
	ServerMicros float64 `json:"server_us_per_op,omitempty"` // processor time
	ClientMicros float64 `json:"client_us_per_op,omitempty"`
	Errors       int     `json:"errors"`

	ErrorsBy map[string]int     `json:"errors_by,omitempty"`
	Retries  map[string]int     `json:"retries,omitempty"`
	Rounds   int                `json:"rounds,omitempty"`
	More     map[string]float64 `json:"more,omitempty"`
}

// series gathers the samples of one arm.
type series struct {
	rates, ratios, server, client []float64
	sum                           *tally
	more                          map[string]float64
	retriesBefore                 map[string]int
}

// run measures an experiment.
func (b *bench) run(ctx context.Context, e experiment) ([]row, error) {
	drivers := make([]driver, len(e.arms))
	gathered := make([]*series, len(e.arms))
	for i, a := range e.arms {
		d, err := b.driver(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", e.name, a.variant, err)
		}
		drivers[i] = d
		gathered[i] = &series{sum: newTally(never()), more: map[string]float64{}}
		warm := runSlice(ctx, d, a.pick, e.clients, window{0, b.plan.warmUp}, b.cpu)
		_ = warm // connections are open and plans made
		gathered[i].retriesBefore = retriesOf(d)
	}
	for round := range e.rounds {
		if err := b.round(ctx, e, round, drivers, gathered); err != nil {
			return nil, err
		}
	}
	if err := b.check(ctx, e); err != nil {
		return nil, err
	}
	rows := make([]row, len(e.arms))
	for i, a := range e.arms {
		rows[i] = gathered[i].row(e, a)
		rows[i].Retries = since(gathered[i].retriesBefore, retriesOf(drivers[i]))
	}
	if e.after != nil {
		return rows, e.after(ctx)
	}
	return rows, nil
}

func (b *bench) round(ctx context.Context, e experiment, round int, drivers []driver, gathered []*series) error {
	floorRate := 0.0
	rates := make([]float64, len(e.arms))
	for n := range e.arms {
		i := (n + round) % len(e.arms)
		if round%2 == 1 { // the other way round, so that no arm always follows the same one
			i = (len(e.arms) - n + round) % len(e.arms)
		}
		s, err := b.slice(ctx, e, e.arms[i], drivers[i], gathered[i])
		if err != nil {
			return fmt.Errorf("%s %s: %w", e.name, e.arms[i].variant, err)
		}
		rates[i] = s.perSecond
		if e.arms[i].variant == variantFloor {
			floorRate = s.perSecond
		}
	}
	for i := range e.arms {
		if floorRate > 0 {
			gathered[i].ratios = append(gathered[i].ratios, rates[i]/floorRate)
		}
	}
	return ctx.Err()
}

func (b *bench) slice(ctx context.Context, e experiment, a arm, d driver, g *series) (sample, error) {
	stop := func() map[string]float64 { return nil }
	if a.background != nil {
		started, err := a.background(ctx, a.site)
		if err != nil {
			return sample{}, err
		}
		stop = started
	}
	s := runSlice(ctx, d, a.pick, e.clients, e.window, b.cpu)
	for name, value := range stop() {
		g.more[name] = max(g.more[name], value)
	}
	g.sum.merge(s.tally)
	g.rates = append(g.rates, s.perSecond)
	if s.done > 0 {
		g.server = append(g.server, float64(s.serverCPU.Microseconds())/float64(s.done))
		g.client = append(g.client, float64(s.ownCPU.Microseconds())/float64(s.done))
	}
	return s, nil
}

func (g *series) row(e experiment, a arm) row {
	main := opResolve
	if len(g.sum.latencies[opResolve]) == 0 {
		main = opWrite
	}
	r := row{
		Case: e.name, Point: a.point, Variant: a.variant, Clients: e.clients, Rounds: len(g.rates),
		OpsPerSecond: rounded(median(g.rates)), Ratio: rounded(median(g.ratios)),
		P50: quantile(g.sum.latencies[main], 0.50), P99: quantile(g.sum.latencies[main], 0.99),
		SettleP50: quantile(g.sum.latencies[opSettle], 0.50), SettleP99: quantile(g.sum.latencies[opSettle], 0.99),
		HotP99:       quantile(g.sum.latencies[opHot], 0.99),
		ServerMicros: rounded(median(g.server)), ClientMicros: rounded(median(g.client)),
		Errors: total(g.sum.errors), ErrorsBy: g.sum.errors, More: g.more,
	}
	if len(g.ratios) > 0 && a.variant != variantFloor {
		r.RatioLow, r.RatioHigh = rounded(slices.Min(g.ratios)), rounded(slices.Max(g.ratios))
	}
	return r
}

// rounded keeps three digits behind the point.
func rounded(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }

func retriesOf(d driver) map[string]int {
	if r, ok := d.(retrier); ok {
		return r.retries()
	}
	return nil
}

func since(before, after map[string]int) map[string]int {
	grown := map[string]int{}
	for name, n := range after {
		if n > before[name] {
			grown[name] = n - before[name]
		}
	}
	return grown
}

// plan says how long everything takes.
type plan struct {
	rounds int
	window window
	warmUp time.Duration
}
