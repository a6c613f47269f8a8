// Package serve is aipd serve: it wires the central data plane out of its packages.
package serve

import (
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/pkg/crashpoint"
)

// Options are the command line of aipd serve.
type Options struct {
	ConfigFile  string
	Listen      string
	Registry    string
	Publication string
	// AllowMutationsUnsafe lets a registry in memory offer capabilities that change
	// something, although a crash forgets what was done.
	AllowMutationsUnsafe bool
}

// Command is aipd serve.
func Command() *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve actions: authenticate, schedule, resolve, dispatch, settle, reconcile",
		Long: `Serve the central data plane with the database role aip_data.

With --registry memory the registry lives in this process and is lost with it. It is
filled from a publication that aipctl signed with an operator key, this process serves
the lifecycle endpoint as well, and capabilities that change anything are refused
unless --allow-mutations-unsafe is given. Of aipctl, the action commands work against it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil))
			return o.run(cmd.Context(), process{out: cmd.OutOrStdout(), log: log, getenv: os.Getenv, now: crashpoint.Clock(time.Now)})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.ConfigFile, "config", "", "configuration file (YAML)")
	f.StringVar(&o.Listen, "listen", "", "host:port to listen on; overrides the file")
	f.StringVar(&o.Registry, "registry", "", "postgres or memory; overrides the file")
	f.StringVar(&o.Publication, "publication", "", "with --registry memory: the signed publication file")
	f.BoolVar(&o.AllowMutationsUnsafe, "allow-mutations-unsafe", false, "with --registry memory: offer capabilities that change something")
	return cmd
}

// config is the file with the flags over it.
func (o Options) config() (Config, error) {
	c, err := LoadConfig(o.ConfigFile)
	if err != nil {
		return c, err
	}
	for flag, field := range map[*string]*string{&o.Listen: &c.Listen, &o.Registry: &c.Registry, &o.Publication: &c.Publication} {
		if *flag != "" {
			*field = *flag
		}
	}
	return c, c.check()
}
