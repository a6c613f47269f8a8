// Command latency answers: what does the way from aipd over a host to its connector add
// to calling the connector directly?
//
// It makes a private fleet of real processes with every durability on, and one
// connector of the same program beside it. Clients call one and the other in turn, in
// interleaved rounds: the connector called directly is the floor. A call is one ticket,
// which the desk makes durable before it answers. Failures are counted. Afterwards it
// measures the daemons at rest and a host's journal alone.
//
//	latency -bin bin -dir DIR [-quick] [-clients 1,32,256] [-out FILE]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "error[bench.dispatch]: %v\n", err)
		os.Exit(1)
	}
}

// plan says how long everything takes.
type plan struct {
	clients []int // how many call at a time
	rounds  int
	window  time.Duration
	warmUp  time.Duration
}

func planOf(quick bool) plan {
	if quick {
		return plan{nil, 2, 3 * time.Second, time.Second}
	}
	return plan{nil, 7, 6 * time.Second, 2 * time.Second}
}

// numbers reads a list such as 1,32,256.
func numbers(list string) ([]int, error) {
	var all []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > room {
			return nil, fmt.Errorf("clients: %q is not 1..%d", text, room)
		}
		all = append(all, n)
	}
	return all, nil
}

func run(args []string) (err error) {
	flags := flag.NewFlagSet("latency", flag.ContinueOnError)
	bin := flags.String("bin", "bin", "directory of the programs")
	dir := flags.String("dir", "", "directory for the fleet; a temporary one when absent")
	quick := flags.Bool("quick", false, "short rounds")
	clients := flags.String("clients", "1,32,256", "numbers of concurrent clients")
	out := flags.String("out", "", "file for the result as JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p := planOf(*quick)
	if p.clients, err = numbers(*clients); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	programs, err := filepath.Abs(*bin)
	if err != nil {
		return err
	}
	place, remove, err := directory(*dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	s, err := setUp(ctx, place, programs)
	if s != nil {
		defer func() { err = errors.Join(err, s.tearDown()) }()
	}
	if err != nil {
		return err
	}
	result := report{Machine: describe(*quick)}
	began := time.Now()
	if result.Results, err = measure(ctx, s, p); err != nil {
		return err
	}
	result.Results = append(result.Results, s.idle(ctx, p.window)...)
	written, err := journals(ctx, place, p)
	if err != nil {
		return err
	}
	result.Results = append(result.Results, written...)
	result.Machine.Seconds, result.Machine.LoadAfter = time.Since(began).Seconds(), load()
	result.print()
	if *out == "" {
		return nil
	}
	data, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(*out, append(data, '\n'), 0o644)
}

// directory makes the place of the fleet, and says how it goes away.
func directory(dir string) (string, func() error, error) {
	if dir != "" {
		abs, err := filepath.Abs(dir)
		return abs, func() error { return nil }, err
	}
	made, err := os.MkdirTemp("", "aipfleet-latency-")
	if err != nil {
		return "", nil, err
	}
	// The database server may run as another account.
	return made, func() error { return os.RemoveAll(made) }, os.Chmod(made, 0o755)
}
