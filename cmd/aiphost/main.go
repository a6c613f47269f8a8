// Command aiphost answers: how does one connector instance run as a process?
//
// It opens the release package, proves the artifact, keeps the journal and the
// lease, runs the connector by the adapter that the manifest names, and serves signed
// messages. What may be executed is decided in package host, and how the parts fit
// together in package hostmain; this command only reads its command line.
//
//	aiphost run --config host.yaml
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/pkg/crashpoint"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host/hostmain"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.LookupEnv, streams{os.Stdout, os.Stderr}))
}

type streams struct{ out, err io.Writer }

// run executes one command line and returns the exit code: 1 when the host refused to
// start or had to stop, 2 for a wrong command line.
func run(ctx context.Context, args []string, env func(string) (string, bool), std streams) int {
	ctx, stop := hostmain.Signals(ctx)
	defer stop()
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
		hostmain.PrintError(std.err, fleet.Invalidf("usage", "%s", err.Error()).Advise("aiphost run --help"))
		return 2
	}
	hostmain.PrintError(std.err, err)
	return 1
}

func runCommand(env func(string) (string, bool), std streams) *cobra.Command {
	o := hostmain.Options{Out: std.out, Err: std.err, Env: env, Now: crashpoint.Clock(time.Now)}
	cmd := &cobra.Command{
		Use: "run --config FILE", Short: "Serve until SIGTERM, then finish what runs and go offline", Args: cobra.NoArgs,
		Long: "Serves until SIGTERM, then finishes what runs and goes offline.\n" +
			"SIGHUP takes over credential_revisions, secrets and secret_env from the file.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			reload := make(chan os.Signal, 1)
			signal.Notify(reload, syscall.SIGHUP)
			defer signal.Stop(reload)
			o.Reload = reload
			return hostmain.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.ConfigPath, "config", "", "configuration file (required)")
	cmd.Flags().StringVar(&o.Listen, "listen", "", "address to serve on, instead of the configured one")
	cmd.Flags().DurationVar(&o.DrainTimeout, "drain-timeout", hostmain.DefaultDrain, "how long running actions may take after SIGTERM")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}
