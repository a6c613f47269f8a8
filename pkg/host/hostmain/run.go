package hostmain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Options of a run. ConfigPath, Out, Err, Env and Now are required.
type Options struct {
	ConfigPath   string
	Listen       string        // instead of the configured address
	DrainTimeout time.Duration // how long running actions may take after ctx ended
	Out, Err     io.Writer     // the ready line, and the log
	Env          func(string) (string, bool)
	Now          func() time.Time
	Reload       <-chan os.Signal // nil is never
	// Connector makes the connector of a program that is its own artifact; nil runs
	// what the manifest's adapter says.
	Connector func(Setup) (connector.Connector, error)
	// Executable is the running program's path; with Connector, its bytes must be the
	// admitted artifact.
	Executable string
}

// Setup is what a Go connector is made with. The credential comes with each call.
type Setup struct {
	Account map[string]string // connector.account of the configuration
	Dir     string            // a private directory of the connector's own; it exists
	Log     *slog.Logger
}

// Run serves until ctx ends, then drains and leaves. An error is a refusal to start,
// or why the process had to stop.
func Run(ctx context.Context, o Options) error {
	cfg, err := loadConfig(o.ConfigPath)
	if err != nil {
		return err
	}
	if o.Listen != "" {
		cfg.Listen = o.Listen
	}
	d := daemon{options: o, cfg: cfg, env: o.Env, now: o.Now}
	return d.run(ctx)
}

// connector is Go code of this program, or what the adapter makes.
func (d *daemon) connector() (made, error) {
	if d.options.Connector == nil {
		return d.adapter()
	}
	if err := d.proveSelf(); err != nil {
		return made{}, err
	}
	if err := os.MkdirAll(d.workDir(), 0o700); err != nil {
		return made{}, fleet.Errorf(fleet.Unavailable, codeConfig, "the connector's directory cannot be made").Caused(err)
	}
	c, err := d.options.Connector(Setup{Account: d.cfg.Connector.Account, Dir: d.workDir(), Log: d.log.With("part", "connector")})
	if err != nil {
		return broken(err), nil
	}
	offers, err := c.Discover(context.Background())
	if err == nil {
		err = connector.Covers(d.parts.release.Manifest(), offers)
	}
	if err != nil {
		return broken(err), nil
	}
	return steadily(c), nil
}

// proveSelf compares the running program with the admitted artifact (G28).
func (d *daemon) proveSelf() error {
	if adapter := d.parts.release.Manifest().Adapter(); adapter != fleet.AdapterGo {
		return fleet.Errorf(fleet.NotAdmitted, codeConfig, "the release is not this program's").
			Because("its manifest names the adapter %q, not %s", fleet.Printable(adapter, 64), fleet.AdapterGo)
	}
	f, err := os.Open(d.options.Executable)
	if err != nil {
		return fleet.Errorf(fleet.Unavailable, "artifact.absent", "the running program cannot be read").Caused(err)
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return fleet.Errorf(fleet.Unavailable, "artifact.absent", "the running program cannot be read").Caused(err)
	}
	got, want := "sha256:"+hex.EncodeToString(sum.Sum(nil)), d.parts.release.ArtifactDigest().String()
	if got != want {
		return fleet.Errorf(fleet.NotAdmitted, "artifact.digest", "the running program is not the admitted artifact").
			Because("its digest is %s, admitted is %s", got, want).Advise("run the artifact of the package that was admitted")
	}
	return nil
}

// PrintError shows an error as every program of the fleet does.
func PrintError(w io.Writer, err error) {
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
