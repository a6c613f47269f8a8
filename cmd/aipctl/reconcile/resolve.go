package reconcile

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/get"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Options is one operator's decision.
type Options struct {
	App      *app.App
	Action   string
	Replica  string // instead of an action: everything undecided on a retired replica
	Fence    uint64
	Outcome  string
	Evidence string
}

func resolveCommand(a *app.App) *cobra.Command {
	o := &Options{App: a}
	cmd := &cobra.Command{
		Use: "resolve ACTION, or resolve --replica REPLICA", Short: "Decide, on evidence, whether an uncertain effect happened",
		Long: "Signs a decision with the operator's key and stores it. The first decision stands.\nAfter did-not-happen the action may run again on its own route; after happened it never does.\n" +
			"With --replica one decision is signed for each undecided attempt on a retired replica; its evidence must cover all of them.",
		Example: "  aipctl reconcile resolve act_… --outcome happened --evidence provider-log.txt --reason 'ticket 42 exists'",
		Args:    oneOrReplica(o), ValidArgsFunction: get.CompleteIDs(a, "reconciliations"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Replica != "" {
				return o.runAll(cmd.Context())
			}
			o.Action = args[0]
			return o.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Outcome, "outcome", "", "happened or did-not-happen (required)")
	f.StringVar(&o.Evidence, "evidence", "", "`file` that shows it; its digest is signed (required)")
	f.StringVar(&o.Replica, "replica", "", "decide everything undecided on this retired `replica`")
	f.Uint64Var(&o.Fence, "fence", 0, "attempt to decide; the newest undecided one when absent")
	return cmd
}

var outcomes = map[string]fleet.Resolution{
	"happened":       fleet.ResolvedHappened,
	"did-not-happen": fleet.ResolvedDidNotHappen,
}

// Run checks, asks, signs and stores.
func (o *Options) Run(ctx context.Context) error {
	id, err := fleet.ParseActionID(o.Action)
	if err != nil {
		return err
	}
	d, err := o.ready(ctx)
	if err != nil {
		return err
	}
	defer d.reg.Close()
	record, err := o.pick(ctx, d.reg, id)
	if err != nil {
		return err
	}
	summary := fmt.Sprintf("action %s, attempt %d on %s: the effect %s\nevidence %s\nthe first decision stands", id, record.Fence, record.Replica, o.Outcome, d.evidence)
	if err := o.App.Confirm(app.ConfirmYes, summary, id.String()); err != nil {
		return err
	}
	decided, revision, err := d.decide(ctx, record)
	if err != nil {
		return err
	}
	return o.App.Print(app.View{
		Kind: "Reconciliation", Item: decided, Revision: revision,
		Name: func(any) string { return decided.Action.String() },
		Text: func() app.Page { return sections(o.App, decided) },
	})
}

// decider is what all decisions of one command share; its registry has to be closed.
type decider struct {
	app      *app.App
	outcome  fleet.Resolution
	evidence fleet.Digest
	signer   envelope.Signer
	reg      *app.Registry
}

// ready checks what the operator says, and opens what a decision needs.
func (o *Options) ready(ctx context.Context) (d decider, err error) {
	d.app = o.App
	if d.outcome, d.evidence, err = o.check(); err != nil {
		return d, err
	}
	if d.signer, err = o.App.OperatorSigner(); err != nil {
		return d, err
	}
	d.reg, err = o.App.OpenRegistry(ctx, app.Control)
	return d, err
}

func (o *Options) check() (outcome fleet.Resolution, evidence fleet.Digest, err error) {
	outcome, known := outcomes[o.Outcome]
	switch {
	case o.Outcome == "":
		err = app.Usagef("usage.flag", "--outcome is needed").Advise("--outcome happened or --outcome did-not-happen")
	case !known:
		err = app.Unknown("usage.outcome", "outcome", o.Outcome, []string{"happened", "did-not-happen"})
	case o.Evidence == "":
		err = app.Usagef("usage.evidence", "a decision needs --evidence FILE").Because("its digest becomes part of the signed decision")
	case o.App.Reason == "":
		err = app.Usagef("usage.reason", "a decision needs --reason").Because("the reason becomes part of the signed decision")
	default:
		evidence, err = digestFile(o.Evidence)
	}
	return outcome, evidence, err
}

func digestFile(path string) (fleet.Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return fleet.Digest{}, app.Usagef("input.file", "the evidence cannot be read").Because("%v", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	var d fleet.Digest
	if err == nil {
		d, err = fleet.DigestReader(f)
	}
	if err == nil && info.Size() == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return fleet.Digest{}, app.Usagef("input.file", "the evidence cannot be used").Because("%v", err)
	}
	return d, nil
}

// pick finds the record to decide: the named attempt, or the newest undecided one.
// A decided one is returned too when nothing else is left, so that a repeat of the
// same decision is answered by the registry as the repeat that it is.
func (o *Options) pick(ctx context.Context, reader registry.Reader, id fleet.ActionID) (fleet.Reconciliation, error) {
	records, _, err := read(ctx, reader, id)
	if err != nil {
		return fleet.Reconciliation{}, err
	}
	best := -1
	for i, r := range records {
		if o.Fence != 0 && r.Fence != o.Fence {
			continue
		}
		if best < 0 || better(r, records[best]) {
			best = i
		}
	}
	if best < 0 {
		return fleet.Reconciliation{}, fleet.Errorf(fleet.NotFound, "reconciliation.not_found", "attempt %d of action %s is not uncertain", o.Fence, id).
			Advise("aipctl reconcile show %s", id)
	}
	return records[best], nil
}

func better(r, than fleet.Reconciliation) bool {
	open, was := r.State != fleet.ReconcileResolved, than.State != fleet.ReconcileResolved
	if open != was {
		return open
	}
	return r.Fence > than.Fence
}

// decide seals the decision for the pinned host and stores it.
func (d decider) decide(ctx context.Context, of fleet.Reconciliation) (record fleet.Reconciliation, revision uint64, err error) {
	now := d.app.Now()
	doc := protocol.Decision{
		ActionID: of.Action, Fence: of.Fence, Replica: of.Replica, Outcome: d.outcome, EvidenceDigest: d.evidence,
		Reason: d.app.Reason, DecidedBy: d.app.Actor(), DecidedAt: now.UTC(),
	}
	page, err := d.reg.List(ctx, registry.Selection{Noun: registry.Routes, IDs: []string{doc.ActionID.String()}})
	if err != nil {
		return record, 0, err
	}
	if len(page.Routes) == 0 {
		return record, 0, fleet.Errorf(fleet.NotFound, "route.action", "no route for action %s", doc.ActionID)
	}
	host, err := envelope.ParseDID(page.Routes[0].Route.Peer.DID)
	if err != nil {
		return record, 0, err
	}
	message, err := protocol.NewMessage(doc, fleet.NewMessageID(now), now)
	if err != nil {
		return record, 0, err
	}
	sealed, err := envelope.Seal(message, envelope.Decision, d.signer, host)
	if err != nil {
		return record, 0, err
	}
	record, err = d.reg.Decide(ctx, registry.ReconciliationKey{Action: doc.ActionID, Fence: doc.Fence},
		registry.Decision{Resolution: doc.Outcome, By: d.signer.DID().String(), Evidence: doc.EvidenceDigest, Document: sealed})
	return record, page.Revision, err
}
