// Command scaling does the arithmetic of docs/scaling.md: what one PostgreSQL carries,
// how fast it grows, and how a demand spreads over cells of tenant groups.
//
// It answers "how many databases does this demand need, how full is the fullest, and how
// long does a call wait there?", by a simulation in virtual time that a seed repeats. Its
// inputs are measurements of one machine; give those of yours. It measures nothing.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errs io.Writer) int {
	d := demand{}
	flags := flag.NewFlagSet("scaling", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Float64Var(&d.actions, "actions", 4000, "actions a second, all tenants")
	flags.IntVar(&d.tenants, "tenants", 5000, "tenants; their shares follow a power law")
	flags.Float64Var(&d.skew, "skew", 0.8, "exponent of the power law; 0 gives all tenants the same")
	flags.IntVar(&d.replicas, "replicas", 10000, "replicas that beat")
	flags.Float64Var(&d.beat, "beat", 10, "seconds between beats of one replica")
	flags.IntVar(&d.groups, "groups", 1024, "tenant groups, the unit that is placed on a cell")
	c := machine{}
	flags.IntVar(&c.cores, "cores", 8, "cores of one database server")
	flags.Float64Var(&c.actionMicros, "action-us", 300, "server processor time of one action, resolve and settle")
	flags.Float64Var(&c.beatMicros, "beat-us", 80, "server processor time of one beat")
	flags.Float64Var(&c.bytes, "bytes", 1139, "bytes of one action in the tables of routes, indexes included")
	flags.Float64Var(&c.tombstone, "tombstone", 200, "bytes that an archived action leaves for ever")
	flags.Float64Var(&c.fill, "fill", 0.6, "how full a server is planned, 0 to 1")
	days := flags.Int("keep-days", 90, "days that routes are kept before they are archived")
	seed := flags.Uint64("seed", 1, "of the simulation")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := valid(d, c); err != nil {
		fmt.Fprintln(errs, err)
		return 2
	}
	report(out, d, c, *days, *seed)
	return 0
}

func valid(d demand, c machine) error {
	switch {
	case d.actions <= 0 || d.tenants < 1 || d.groups < 1 || d.replicas < 0 || d.beat <= 0 || d.skew < 0:
		return fmt.Errorf("the demand is not positive")
	case c.cores < 1 || c.actionMicros <= 0 || c.beatMicros <= 0 || c.fill <= 0 || c.fill > 1:
		return fmt.Errorf("the machine is not one")
	}
	return nil
}

func report(out io.Writer, d demand, c machine, days int, seed uint64) {
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	say("one server: %d cores, %.0f us an action: %.0f actions/s at %.0f %% full", c.cores, c.actionMicros, c.carries(), 100*c.fill)
	say("beats: %d replicas every %.0f s cost %.2f cores", d.replicas, d.beat, d.beatCores(c))
	daily := d.actions * 86400
	say("growth: %.0f M actions and %.0f GB a day; %d days kept are %.1f TB; tombstones add %.1f TB a year",
		daily/1e6, daily*c.bytes/1e9, days, daily*c.bytes*float64(days)/1e12, daily*365*c.tombstone/1e12)
	groups := d.byGroup(seed)
	say("cells: %.0f actions/s of %d tenants in %d groups; the largest group asks for %.0f", d.actions, d.tenants, d.groups, largest(groups))
	for _, n := range []int{1, 2, 4, 8, 16} {
		p := place(groups, n)
		w := simulate(p.fullest, c, d.beatCores(c)/float64(n), seed)
		say("  %2d: fullest %5.0f actions/s, %3.0f %% of its processors, wait p50 %s p99 %s; one cell more moves %.0f %% of the demand",
			n, p.fullest, 100*w.busy, w.text(w.p50), w.text(w.p99), 100*moved(groups, n))
	}
}
