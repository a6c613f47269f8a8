// Command bench answers: how fast is the registry here, measured against what one
// commit costs on the same machine in the same minute?
//
// It starts a private PostgreSQL with default durability, fills it with a fleet, and
// lets clients resolve and settle in several ways. Every figure is a ratio to the
// floor (one statement that inserts a row as wide as a route and updates one row) of
// the same round at the same number of clients; slices are short, their order
// changes with every round, and the median of the rounds counts.
//
// It guarantees: the load ends by itself, the server ends with the program, also when
// it is interrupted; nothing is measured on a server without durability; refusals and
// failures are counted and never left out. It does not own what it measures, and says
// nothing about other machines.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type options struct {
	scope
	out, page, dir string
	profile        bool
	rounds         int
	slice          time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2)
	}
	limit := 3 * time.Hour
	if o.quick {
		limit = 15 * time.Minute
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	err = run(bounded, o, os.Stderr, os.Stdout)
	cancel()
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "bench: interrupted; the server is stopped")
		os.Exit(130)
	case err != nil:
		fmt.Fprintf(os.Stderr, "error[bench.failed]: %v\n", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.BoolVar(&o.quick, "quick", false, "three rounds of short slices, under three minutes")
	f.StringVar(&o.out, "out", "", "write the result as JSON to this `file`")
	f.StringVar(&o.page, "page", "", "put the table between the marks of this Markdown `file`")
	f.StringVar(&o.dir, "dir", "", "cluster `directory`; kept afterwards. Default: a temporary one")
	f.BoolVar(&o.profile, "profile", false, "profile one variant instead: statements, functions and plans of resolve and settle")
	f.IntVar(&o.rounds, "rounds", 0, "rounds instead of the plan's")
	f.DurationVar(&o.slice, "slice", 0, "measured time of one slice instead of the plan's")
	cases := f.String("cases", "", "only these cases, by comma")
	clients := f.String("clients", "", "these client counts instead of the cases', by comma")
	variants := f.String("variants", "", "only these variants, by comma; the floor is always there")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.cases, o.variants = split(*cases), split(*variants)
	for _, text := range split(*clients) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > connections {
			fmt.Fprintf(os.Stderr, "error[bench.clients]: %q is not a number from 1 to %d\n", text, connections)
			return o, errors.New("clients")
		}
		o.clients = append(o.clients, n)
	}
	return o, nil
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// run measures and writes. Progress goes to log, the table to out.
func run(ctx context.Context, o options, log, out io.Writer) (err error) {
	began := time.Now()
	b := &bench{scope: o.scope, plan: planOf(o.quick), log: log, drivers: map[string]driver{}}
	if o.rounds > 0 {
		b.plan.rounds = o.rounds
	}
	if o.slice > 0 {
		b.plan.window.measured = o.slice
	}
	r := report{Machine: describeMachine(o.quick)}
	list := b.experiments()
	if o.profile {
		list = nil
		b.sites = nil
		b.site(siteMain)
	}
	if b.scope.wants("publication") {
		b.site(siteMain)
	}
	if b.server, err = newServer(ctx, o.dir, o.profile, log); err != nil {
		return err
	}
	defer b.server.close()
	if err := b.seedAll(ctx); err != nil {
		return err
	}
	if r.Machine.PostgreSQL, r.Machine.Settings, err = b.settings(ctx); err != nil {
		return err
	}
	if err := wantsDurability(r.Machine.Settings); err != nil {
		return err
	}
	if o.profile {
		return b.profile(ctx, out)
	}
	if o.quick && o.slice == 0 {
		fitted := b.plan.fit(list, quickLimit-time.Since(began))
		for i := range list {
			list[i].window = fitted
		}
	}
	if err := b.measure(ctx, list); err != nil {
		return err
	}
	if b.scope.wants("publication") {
		size := publicationSize
		if o.quick {
			size = publicationSize / 10
		}
		rows, err := b.publication(ctx, b.site(siteMain), size, 8)
		if err != nil {
			return err
		}
		b.rows = append(b.rows, rows...)
	}
	r.Results, r.Problems = b.rows, b.problems
	r.Machine.LoadAfter, r.Machine.Seconds = load(), rounded(time.Since(began).Seconds())
	return finish(o, r, out)
}

// publicationSize is how many bindings the case publication publishes at once; a quick
// run publishes a tenth.
const publicationSize = 100_000

func finish(o options, r report, out io.Writer) error {
	printTable(out, r.Results)
	if o.out != "" {
		if err := writeJSON(o.out, r); err != nil {
			return err
		}
	}
	if o.page != "" {
		if err := writeMarkdown(o.page, r); err != nil {
			return err
		}
	}
	if len(r.Problems) > 0 {
		return fmt.Errorf("%d problems, the first: %s", len(r.Problems), r.Problems[0])
	}
	return nil
}
