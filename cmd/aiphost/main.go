// Command aiphost answers: how does one connector instance run as a process?
//
// It opens the release package, proves the artifact, keeps the journal and the
// lease, runs the connector as a child process and serves signed messages. What
// may be executed is decided in package host; this command only wires.
//
//	aiphost run --config host.yaml
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/pkg/crashpoint"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.LookupEnv, streams{os.Stdout, os.Stderr}))
}

type streams struct{ out, err io.Writer }

// run executes one command line and returns the exit code: 1 when the host refused to
// start or had to stop, 2 for a wrong command line.
func run(ctx context.Context, args []string, env func(string) (string, bool), std streams) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	usage := true
	root := &cobra.Command{
		Use: "aiphost", Short: "Run one connector instance", SilenceErrors: true, SilenceUsage: true,
		PersistentPreRun: func(*cobra.Command, []string) { usage = false },
	}
	root.SetArgs(args)
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.AddCommand(runCommand(env, std))
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case usage:
		printError(std.err, fleet.Invalidf("usage", "%s", err.Error()).Advise("aiphost run --help"))
		return 2
	}
	printError(std.err, err)
	return 1
}

func runCommand(env func(string) (string, bool), std streams) *cobra.Command {
	var path, listen string
	var drain time.Duration
	cmd := &cobra.Command{
		Use: "run --config FILE", Short: "Serve until SIGTERM, then finish what runs and go offline", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(path)
			if err != nil {
				return err
			}
			if listen != "" {
				cfg.Listen = listen
			}
			d := daemon{cfg: cfg, env: env, std: std, drainTimeout: drain, now: crashpoint.Clock(time.Now)}
			return d.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration file (required)")
	cmd.Flags().StringVar(&listen, "listen", "", "address to serve on, instead of the configured one")
	cmd.Flags().DurationVar(&drain, "drain-timeout", 30*time.Second, "how long running actions may take after SIGTERM")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

// printError shows an error as every program of the fleet does.
func printError(w io.Writer, err error) {
	e := fleet.AsError(err, "aiphost.failed")
	fmt.Fprintf(w, "error[%s]: %s\n", e.Code, e.What)
	if e.Why != "" {
		fmt.Fprintf(w, "  cause: %s\n", e.Why)
	} else if cause := e.Unwrap(); cause != nil {
		fmt.Fprintf(w, "  cause: %s\n", fleet.Printable(cause.Error(), 1000))
	}
	if e.Next != "" {
		fmt.Fprintf(w, "  next: %s\n", e.Next)
	}
}
