package hostmain

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/crashpoint"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Main runs a host whose connector is made by build, and ends the process: with 0
// after SIGTERM, 1 when the host refused to start or had to stop, 2 for a wrong
// command line.
//
//	connector run --config host.yaml [--listen ADDRESS] [--drain-timeout 30s]
//
// The program itself is the artifact of its release, whose adapter is go.
func Main(build func(Setup) (connector.Connector, error)) {
	os.Exit(run(os.Args[1:], build))
}

func run(args []string, build func(Setup) (connector.Connector, error)) int {
	o := Options{Out: os.Stdout, Err: os.Stderr, Env: os.LookupEnv, Now: crashpoint.Clock(time.Now), Connector: build}
	if err := parse(args, &o); err != nil {
		PrintError(os.Stderr, fleet.Invalidf("usage", "%s", err.Error()).Advise("run --config FILE [--listen ADDRESS] [--drain-timeout 30s]"))
		return 2
	}
	var err error
	if o.Executable, err = os.Executable(); err != nil {
		PrintError(os.Stderr, fleet.Errorf(fleet.Unavailable, "artifact.absent", "the running program cannot be found").Caused(err))
		return 1
	}
	ctx, stop := Signals(context.Background())
	defer stop()
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	o.Reload = reload
	if err := Run(ctx, o); err != nil {
		PrintError(os.Stderr, err)
		return 1
	}
	return 0
}

func parse(args []string, o *Options) error {
	if len(args) == 0 || args[0] != "run" {
		return fmt.Errorf("the only command is run")
	}
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(os.Stderr)
	flags.StringVar(&o.ConfigPath, "config", "", "configuration file (required)")
	flags.StringVar(&o.Listen, "listen", "", "address to serve on, instead of the configured one")
	flags.DurationVar(&o.DrainTimeout, "drain-timeout", DefaultDrain, "how long running actions may take after SIGTERM")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if o.ConfigPath == "" || flags.NArg() > 0 {
		return fmt.Errorf("--config is required, and nothing else but flags")
	}
	return nil
}

// DefaultDrain is how long running actions may take after SIGTERM.
const DefaultDrain = 30 * time.Second

// Signals gives a context that ends with SIGTERM or an interrupt. The second signal
// ends the process at once.
func Signals(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
