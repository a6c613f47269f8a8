// Package doctor is aipctl doctor: is everything that this target needs as it should be?
//
// Every check says what was looked at, and what to do when it is not well. It reads
// only; one failed check is exit code 1.
package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Check is one thing looked at.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn, fail, skip
	Detail string `json:"detail,omitempty"`
	Next   string `json:"next,omitempty"`
}

// Options is one examination.
type Options struct {
	App    *app.App
	OldAge time.Duration // an uncertain attempt older than this is a warning

	checks []Check
}

// Command makes aipctl doctor.
func Command(a *app.App) *cobra.Command {
	o := &Options{App: a}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check that everything this target needs is well; exit 1 when something is not",
		GroupID: app.GroupLook, Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Run(cmd.Context()) },
	}
	cmd.Flags().DurationVar(&o.OldAge, "uncertain-age", 15*time.Minute, "warn when an attempt has been uncertain longer")
	return cmd
}

func (o *Options) add(name, status, detail, next string) {
	o.checks = append(o.checks, Check{name, status, detail, next})
}

func (o *Options) failed(name string, err error) {
	e := fleet.AsError(err, name)
	next := e.Next
	if next == "" {
		next = "aipctl explain " + e.Code
	}
	o.add(name, "fail", e.Code+": "+e.Error(), next)
}

// Run looks at everything that can be looked at.
func (o *Options) Run(ctx context.Context) error {
	o.checks = nil
	target, err := o.App.Target()
	if err != nil {
		o.failed("context", err)
		return o.print()
	}
	o.add("context", "ok", target.Name, "")
	o.schema(ctx, target)
	o.registry(ctx)
	o.aipd(ctx, target)
	o.key(target)
	return o.print()
}

func (o *Options) schema(ctx context.Context, target app.Target) {
	if o.App.Verify == nil {
		o.add("schema and roles", "skip", "this program has no database behind it", "")
		return
	}
	problems, err := o.App.Verify(ctx, target)
	switch {
	case err != nil:
		o.failed("schema and roles", err)
	case len(problems) > 0:
		o.add("schema and roles", "fail", fmt.Sprintf("%d differences: %s", len(problems), problems[0]), "aipctl registry verify")
	default:
		o.add("schema and roles", "ok", "as this program needs them", "")
	}
}

func (o *Options) registry(ctx context.Context) {
	reg, err := o.App.OpenRegistry(ctx, app.ReadOnly)
	if err != nil {
		o.failed("registry", err)
		return
	}
	defer reg.Close()
	status, err := reg.Status(ctx)
	if err != nil {
		o.failed("registry", err)
		return
	}
	o.add("registry", "ok", fmt.Sprintf("revision %d", status.Revision), "")
	o.clock(status)
	o.fleet(status)
	o.uncertain(status)
	snapshot, err := reg.Snapshot(ctx)
	if err != nil {
		o.failed("audit", err)
		return
	}
	if broken := registry.Audit(snapshot); len(broken) > 0 {
		o.add("audit", "fail", fmt.Sprintf("%d invariants are broken, the first is %s: %s", len(broken), broken[0].Guarantee, broken[0].What), "aipctl registry audit")
		return
	}
	o.add("audit", "ok", fmt.Sprintf("no invariant is broken over %d routes", len(snapshot.Routes)), "")
}

const maxSkew = 5 * time.Second

func (o *Options) clock(s registry.Status) {
	skew := o.App.Now().Sub(s.At).Abs()
	if skew > maxSkew {
		o.add("clock", "warn", "this machine and the registry differ by "+app.Duration(skew), "set the clocks: relative times here are off by that much")
		return
	}
	o.add("clock", "ok", "agrees with the registry", "")
}

func (o *Options) fleet(s registry.Status) {
	ready := s.Replicas[fleet.ReplicaReady]
	detail := fmt.Sprintf("%d of %d ready, %d unhealthy, %d circuits open", ready, s.ReplicasDeclared, s.Unhealthy, s.CircuitsOpen)
	switch {
	case s.ReplicasDeclared > 0 && ready == 0:
		o.add("replicas", "fail", detail, "aipctl get replicas")
	case s.Unhealthy > 0 || s.CircuitsOpen > 0:
		o.add("replicas", "warn", detail, "aipctl get replicas --where 'circuit!=closed'")
	default:
		o.add("replicas", "ok", detail, "")
	}
}

func (o *Options) uncertain(s registry.Status) {
	open, operator := s.Uncertain[fleet.ReconcileOpen], s.Uncertain[fleet.ReconcileOperator]
	detail := fmt.Sprintf("%d being asked about, %d for an operator", open, operator)
	if open+operator > 0 {
		detail += ", the oldest for " + app.Duration(s.OldestUncertain)
	}
	if operator > 0 || s.OldestUncertain > o.OldAge {
		o.add("uncertain", "warn", detail, "aipctl reconcile list")
		return
	}
	o.add("uncertain", "ok", detail, "")
}

func (o *Options) aipd(ctx context.Context, target app.Target) {
	if target.Aipd.URL == "" {
		o.add("aipd", "skip", "the context names none", "aipctl context set "+target.Name+" --aipd-url URL")
		return
	}
	c, err := o.App.Client()
	if err != nil {
		o.failed("aipd", err)
		return
	}
	ready, err := c.Ready(ctx)
	if err != nil {
		o.failed("aipd", err)
		return
	}
	if ready.Ready {
		o.add("aipd", "ok", fmt.Sprintf("%d parts ready", len(ready.Parts)), "")
		return
	}
	for _, part := range ready.Parts {
		if !part.Ready {
			o.add("aipd", "fail", part.Name+": "+part.Detail, "look at aipd's log")
			return
		}
	}
	o.add("aipd", "fail", "not ready", "look at aipd's log")
}

func (o *Options) key(target app.Target) {
	if target.OperatorKey == "" {
		o.add("operator key", "skip", "the context names none; decisions cannot be signed", "aipctl context set "+target.Name+" --operator-key FILE")
		return
	}
	signer, err := o.App.OperatorSigner()
	if err != nil {
		o.failed("operator key", err)
		return
	}
	o.add("operator key", "ok", signer.DID().String(), "")
}

func (o *Options) print() error {
	bad := 0
	t := app.Table{Header: []string{"CHECK", "STATUS", "DETAIL", "NEXT"}}
	for _, c := range o.checks {
		if c.Status == "fail" {
			bad++
		}
		t.Rows = append(t.Rows, []string{c.Name, app.Status(c.Status), c.Detail, c.Next})
	}
	err := o.App.Print(app.View{Kind: "Checks", Items: app.Items(o.checks), Table: func(bool) app.Table { return t }})
	if err == nil && bad > 0 {
		return app.Exit(1)
	}
	return err
}
