// Command ticketdesk answers: how do MCP clients reach a ticket desk?
//
// It serves the desk of one account over stdio. The account's store directory is
// --store or TICKETDESK_DIR, its API token TICKETDESK_TOKEN. Without a store
// it lists its tools and refuses every call, so that a packer can discover them.
//
//	ticketdesk [--store DIR] [--account NAME]   serve MCP on stdin and stdout
//	ticketdesk effects --store DIR              print the effects and their count
//	ticketdesk fired --store DIR                print the faults that struck
//
// What it does not own: what a call does; that is package desk.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.LookupEnv, stdio{os.Stdin, os.Stdout, os.Stderr}))
}

type stdio struct {
	in       io.ReadCloser
	out, err io.WriteCloser
}

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

func run(ctx context.Context, args []string, lookup func(string) (string, bool), std stdio) int {
	if len(args) > 0 && args[0] == "effects" {
		return inspect(args, std, printEffects)
	}
	if len(args) > 0 && args[0] == "fired" {
		return inspect(args, std, printFired)
	}
	return serve(ctx, args, lookup, std)
}

func serve(ctx context.Context, args []string, lookup func(string) (string, bool), std stdio) int {
	flags := flag.NewFlagSet("ticketdesk", flag.ContinueOnError)
	flags.SetOutput(std.err)
	store, _ := lookup("TICKETDESK_DIR")
	account, _ := lookup("TICKETDESK_ACCOUNT")
	token, _ := lookup("TICKETDESK_TOKEN")
	flags.StringVar(&store, "store", store, "store directory of the account (or TICKETDESK_DIR)")
	flags.StringVar(&account, "account", account, "account the store must belong to (or TICKETDESK_ACCOUNT)")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(std.err, "ticketdesk: unknown command %q: effects, fired, or none to serve\n", flags.Arg(0))
		return exitUsage
	}
	s := server{quit: quit(std.err)}
	if store != "" {
		opened, err := desk.Open(desk.Options{Dir: store, Account: account, Token: token, Now: time.Now, Crash: crash})
		if err != nil {
			fmt.Fprintf(std.err, "ticketdesk: cannot open the desk in %s: %v\n", store, err)
			return exitFailure
		}
		defer opened.Close()
		s.desk = opened
	}
	if err := s.run(ctx, std); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintf(std.err, "ticketdesk: %v\n", err)
		return exitFailure
	}
	return exitOK
}

// crash ends the process as a power cut would: no answer, no clean-up.
func crash() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// quit ends the process when it can no longer say what happened.
func quit(log io.Writer) func(error) {
	return func(err error) {
		fmt.Fprintf(log, "ticketdesk: stopping: %v\n", err)
		os.Exit(exitFailure)
	}
}

// inspect runs a command that only looks at a store.
func inspect(args []string, std stdio, show func(dir string, out *json.Encoder) error) int {
	flags := flag.NewFlagSet("ticketdesk "+args[0], flag.ContinueOnError)
	flags.SetOutput(std.err)
	store := flags.String("store", "", "store directory of the account")
	if err := flags.Parse(args[1:]); err != nil {
		return exitUsage
	}
	if *store == "" || flags.NArg() > 0 {
		fmt.Fprintf(std.err, "usage: ticketdesk %s --store DIR\n", args[0])
		return exitUsage
	}
	if err := show(*store, json.NewEncoder(std.out)); err != nil {
		fmt.Fprintf(std.err, "ticketdesk: %v\n", err)
		return exitFailure
	}
	return exitOK
}

// printEffects prints a JSON object: the recount, and every effect.
func printEffects(dir string, out *json.Encoder) error {
	effects, err := desk.ReadEffects(dir)
	if err != nil {
		return err
	}
	return out.Encode(map[string]any{"tally": desk.Count(effects), "effects": nonNil(effects)})
}

func printFired(dir string, out *json.Encoder) error {
	fired, err := desk.ReadFired(dir)
	if err != nil {
		return err
	}
	return out.Encode(map[string]any{"fired": nonNil(fired)})
}

// nonNil makes an empty list print as one.
func nonNil[T any](list []T) []T { return append([]T{}, list...) }
