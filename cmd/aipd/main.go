// Command aipd is the central daemon: the data plane (aipd serve) and the lifecycle
// service (aipd lifecycle), each with its own database role.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipd/lifecycle"
	"github.com/aipfleet/aipfleet/cmd/aipd/serve"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs one command and says how it ended: 0, 1 when the daemon refused or failed,
// 2 for a wrong command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	usage := true
	root := &cobra.Command{
		Use: "aipd", Short: "Central daemon of an AIP fleet", SilenceUsage: true, SilenceErrors: true,
		PersistentPreRun: func(*cobra.Command, []string) { usage = false },
	}
	root.AddCommand(serve.Command(), lifecycle.Command())
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	printError(stderr, err, usage)
	if usage {
		return 2
	}
	return 1
}

// printError writes what was refused, why, and what to do about it.
func printError(w io.Writer, err error, usage bool) {
	e := &fleet.Error{Code: "usage", What: err.Error(), Next: "aipd --help"}
	if !usage {
		e = fleet.AsError(err, "internal")
	}
	cause := e.Why
	if cause == "" && e.Unwrap() != nil {
		cause = errors.Unwrap(e).Error()
	}
	_, _ = fmt.Fprintf(w, "error[%s]: %s\n", e.Code, e.What)
	if cause != "" {
		_, _ = fmt.Fprintf(w, "cause: %s\n", fleet.Printable(cause, 1000))
	}
	if e.Next != "" {
		_, _ = fmt.Fprintf(w, "next: %s\n", e.Next)
	}
}
