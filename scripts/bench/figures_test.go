package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTally_OnlyWhatEndsInTheWindowCounts(t *testing.T) {
	now := time.Now()
	early := newTally(now.Add(time.Hour), now.Add(2*time.Hour))
	early.done(opResolve, now)
	inside := newTally(now.Add(-time.Hour), now.Add(time.Hour))
	inside.done(opResolve, now)
	late := newTally(now.Add(-2*time.Hour), now.Add(-time.Hour))
	late.done(opResolve, now)
	late.failed("contended")
	late.failed("contended")
	if early.counted != 0 || len(early.latencies[opResolve]) != 0 {
		t.Error("an operation before the window counted")
	}
	if inside.counted != 1 || len(inside.latencies[opResolve]) != 1 {
		t.Error("an operation inside the window did not count")
	}
	if late.counted != 0 || len(late.latencies[opResolve]) != 1 || late.errors["contended"] != 2 {
		t.Error("a late operation must keep its latency and its failures and not count")
	}
}

func TestQuantilesAndMedians(t *testing.T) {
	var l []time.Duration
	for i := 1; i <= 100; i++ {
		l = append(l, time.Duration(101-i)*time.Millisecond)
	}
	if p50, p99, most := quantile(l, 0.5), quantile(l, 0.99), quantile(l, 1); p50 != 51 || p99 != 100 || most != 100 {
		t.Errorf("p50 %v p99 %v max %v", p50, p99, most)
	}
	if quantile(nil, 0.5) != 0 || median(nil) != 0 || median([]float64{3, 1, 2}) != 2 || median([]float64{4, 1, 2, 3}) != 2.5 {
		t.Error("medians are wrong")
	}
}

func TestRow_TheRatioIsTheMedianOfTheRoundsOwnRatios(t *testing.T) {
	g := &series{rates: []float64{100, 900, 300}, ratios: []float64{0.5, 0.9, 0.6}, sum: newTally(never()), more: map[string]float64{}}
	g.sum.failed("resolve contended")
	r := g.row(experiment{name: "uniform", clients: 8}, arm{variant: variantOneCall})
	if r.Ratio != 0.6 || r.RatioLow != 0.5 || r.RatioHigh != 0.9 || r.OpsPerSecond != 300 || r.Errors != 1 {
		t.Errorf("%+v", r)
	}
}

func TestReport_TheFileHasTheAgreedFields(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.json")
	if err := writeJSON(path, report{Results: []row{{Case: "uniform", Variant: variantFloor, Clients: 8}}}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Machine map[string]any
		Results []map[string]any
	}
	if err := json.Unmarshal(data, &got); err != nil || len(got.Results) != 1 || got.Machine == nil {
		t.Fatalf("%v: %s", err, data)
	}
	for _, field := range []string{"case", "variant", "clients", "ops_per_s", "ratio_to_floor", "p50_ms", "p99_ms", "errors"} {
		if _, ok := got.Results[0][field]; !ok {
			t.Errorf("field %s is missing", field)
		}
	}
}

func TestReport_OnlyTheTextBetweenTheMarksIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("above\n"+markBegin+"\nold\n"+markEnd+"\nbelow\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeMarkdown(path, report{Results: []row{{Case: "uniform", Variant: "one_call", Clients: 64, Ratio: 0.5}}}); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	if !strings.HasPrefix(text, "above\n"+markBegin) || !strings.HasSuffix(text, markEnd+"\nbelow\n") || strings.Contains(text, "old") || !strings.Contains(text, "| uniform |") {
		t.Errorf("the page became:\n%s", text)
	}
	if err := os.WriteFile(path, []byte("no marks"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeMarkdown(path, report{}); err == nil {
		t.Error("a page without marks was not refused")
	}
}

func TestPlan_EveryCaseIsThereAndTheQuickOneIsShort(t *testing.T) {
	for _, quick := range []bool{true, false} {
		b := &bench{scope: scope{quick: quick}, plan: planOf(quick)}
		cases := map[string]int{}
		var took time.Duration
		for _, e := range b.experiments() {
			cases[e.name]++
			if e.arms[0].variant != variantFloor {
				t.Errorf("%s at %d clients has no floor", e.name, e.clients)
			}
			took += time.Duration(e.rounds*len(e.arms))*(e.window.ramp+e.window.measured) + time.Duration(len(e.arms))*b.plan.warmUp
		}
		for _, name := range []string{
			"uniform", "hot_tenant", "hot_tenant_200", "skewed", "few_replicas", "fanout", "growth_replicas", "growth_routes", "growth_bindings",
			"publish_under_load", "heartbeats", "route_under_heartbeats", "river",
		} {
			if cases[name] == 0 {
				t.Errorf("quick %v: case %s is missing", quick, name)
			}
		}
		if quick && took > 150*time.Second {
			t.Errorf("the slices of the quick plan take %s: seeding and the rest must fit into three minutes too", took)
		}
	}
}

func TestDurability_FiguresOfAServerThatLosesCommitsAreRefused(t *testing.T) {
	if err := wantsDurability([]string{"fsync=on", "synchronous_commit=off", "full_page_writes=on"}); err == nil {
		t.Error("asynchronous commits were accepted")
	}
	if err := wantsDurability([]string{"fsync=on", "synchronous_commit=on", "full_page_writes=on"}); err != nil {
		t.Error(err)
	}
}

func TestPlan_ASlowSeedingShortensTheSlices(t *testing.T) {
	b := &bench{scope: scope{quick: true}, plan: planOf(true)}
	list := b.experiments()
	if w := b.plan.fit(list, time.Hour); w != b.plan.window {
		t.Errorf("with time to spare the window is %v", w)
	}
	if w := b.plan.fit(list, 100*time.Second); w.measured >= b.plan.window.measured || w.measured < shortest {
		t.Errorf("with little time the window is %v", w)
	}
	if w := b.plan.fit(list, -time.Second); w.measured != shortest {
		t.Errorf("without time the window is %v", w)
	}
}
