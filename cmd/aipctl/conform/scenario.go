package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// played is a case that was played, with its answer.
type played struct {
	Case
	action fleet.ActionID
	answer said
}

// scenario is one thing that is looked at. It is left out when it needs a played case
// and there is none.
type scenario struct {
	name string
	acts bool // needs a case that completed
	run  func(b *bed, ctx context.Context, done []played) error
}

// scenarios lists them in the order in which they are played. The last ones end the
// host, and the connector.
func scenarios() []scenario {
	return []scenario{
		{"starts", false, (*bed).starts},
		{"tools", false, (*bed).tools},
		{"stranger_refused", false, (*bed).strangerRefused},
		{"input_refused", false, (*bed).inputRefused},
		{"repeat", true, (*bed).repeat},
		{"other_input_refused", true, (*bed).otherInput},
		{"reconcile", true, (*bed).reconcile},
		{"restart", true, (*bed).restart},
		{"drain", false, (*bed).drain},
		{"stops", false, (*bed).stops},
	}
}

// Names lists the scenarios that do not depend on the cases.
func Names() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}

// play runs everything: the start, the cases, then the rest. When the connector does
// not start nothing else can be looked at.
func (b *bed) play(ctx context.Context, cases []Case, r *Result) {
	var done []played
	for i, s := range scenarios() {
		if s.acts && len(done) == 0 {
			r.LeftOut = append(r.LeftOut, s.name)
			continue
		}
		if !r.note(s.name, s.run(b, ctx, done)) && i == 0 {
			return
		}
		if s.name == "input_refused" {
			done = b.playCases(ctx, cases, r)
		}
	}
}

// note records how a scenario ended.
func (r *Result) note(name string, err error) bool {
	if err != nil {
		r.Failed = append(r.Failed, Failure{name, fleet.Printable(err.Error(), 500)})
		return false
	}
	r.Passed = append(r.Passed, name)
	return true
}

func (b *bed) playCases(ctx context.Context, cases []Case, r *Result) (done []played) {
	for _, c := range cases {
		p, err := b.playCase(ctx, c)
		if r.note("case:"+c.Name, err) && c.Expect == protocol.ResultCompleted {
			done = append(done, p)
		}
	}
	return done
}

func (b *bed) playCase(ctx context.Context, c Case) (played, error) {
	p := played{Case: c, action: fleet.NewActionID(b.o.App.Now())}
	var err error
	if p.answer, err = b.dispatch(ctx, p, c.input); err != nil {
		return p, err
	}
	switch got := p.answer; {
	case got.result == nil:
		return p, fmt.Errorf("it was refused: %s", got.code)
	case got.result.Status != c.Expect:
		return p, fmt.Errorf("it %s, expected is %s%s", got.result.Status, c.Expect, because(got.result))
	}
	return p, nil
}

func because(r *protocol.ActionResult) string {
	if r.Error == nil {
		return ""
	}
	return ": " + r.Error.Message
}

func (b *bed) dispatch(ctx context.Context, p played, input json.RawMessage) (said, error) {
	return b.send(ctx, b.gateway, p.action, p.Capability, protocol.Action{ID: p.action, Capability: p.Capability, Input: input})
}

// starts: the verified bytes run, and answer as the manifest's adapter expects.
func (b *bed) starts(ctx context.Context, _ []played) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	b.adapter.Start()
	return b.adapter.AwaitHealthy(ctx)
}

// tools: every tool that the manifest names is there, with the admitted schema.
func (b *bed) tools(ctx context.Context, _ []played) error {
	offers, err := b.adapter.Discover(ctx)
	if err != nil {
		return err
	}
	offered := map[string]connector.Offer{}
	for _, o := range offers {
		offered[o.Tool] = o
	}
	var problems []error
	m := b.pkg.Manifest()
	for _, i := range m.Implementations {
		for _, tool := range []string{i.Tool, i.ReconcileTool} {
			if _, ok := offered[tool]; !ok && tool != "" {
				problems = append(problems, fmt.Errorf("tool %s of %s does not exist", tool, i.Capability))
			}
		}
	}
	return errors.Join(problems...)
}

// anyCapability is the first that the manifest offers.
func (b *bed) anyCapability() fleet.CapabilityID { return b.pkg.Manifest().Capabilities[0].ID }

// strangerRefused: a message signed by nobody that the host knows does nothing.
func (b *bed) strangerRefused(ctx context.Context, _ []played) error {
	id := fleet.NewActionID(b.o.App.Now())
	got, err := b.send(ctx, b.stranger, id, b.anyCapability(), protocol.Action{ID: id, Capability: b.anyCapability(), Input: json.RawMessage(`{}`)})
	if err == nil && got.code != host.CodeSignature {
		return fmt.Errorf("a stranger's message got %d %s", got.status, got.code)
	}
	return err
}

// inputRefused: what the admitted schema does not allow never reaches the connector.
func (b *bed) inputRefused(ctx context.Context, _ []played) error {
	p := played{Case: Case{Capability: b.anyCapability()}, action: fleet.NewActionID(b.o.App.Now())}
	got, err := b.dispatch(ctx, p, json.RawMessage(`"not an object"`))
	if err == nil && got.code != host.CodeContract {
		return fmt.Errorf("an input that is no object got %d %s", got.status, got.code)
	}
	return err
}

// repeat: the same action again gets the same answer, byte for byte.
func (b *bed) repeat(ctx context.Context, done []played) error { return b.again(ctx, done) }

func (b *bed) again(ctx context.Context, done []played) error {
	for _, p := range done {
		got, err := b.dispatch(ctx, p, p.input)
		if err != nil {
			return err
		}
		if !bytes.Equal(got.body, p.answer.body) {
			return fmt.Errorf("case %s got another answer the second time", p.Name)
		}
	}
	return nil
}

// otherInput: one action means one thing.
func (b *bed) otherInput(ctx context.Context, done []played) error {
	p := done[0]
	got, err := b.dispatch(ctx, p, json.RawMessage(`{"conformance":"other"}`))
	if err == nil && got.code != host.CodeActionConflict {
		return fmt.Errorf("another input for the same action got %d %s", got.status, got.code)
	}
	return err
}

// reconcile: the connector finds an effect that it had, and none that it had not.
func (b *bed) reconcile(ctx context.Context, done []played) error {
	m := b.pkg.Manifest()
	for _, p := range done {
		i, _ := m.Implementation(p.Capability)
		c, _ := m.Capability(p.Capability)
		if i.ReconcileTool == "" || !c.Contract.SideEffects.Mutates() {
			continue
		}
		for key, want := range map[string]bool{p.action.String(): true, "act_conformance_never_sent": false} {
			f, err := b.adapter.Reconcile(ctx, connector.Query{Action: p.action, Capability: p.Capability, IdempotencyKey: key})
			if err != nil {
				return err
			}
			if f.Found != want {
				return fmt.Errorf("case %s: the effect of key %s is found: %v", p.Name, key, f.Found)
			}
		}
	}
	return nil
}

// restart: a host that comes back on its journal still knows every answer.
func (b *bed) restart(ctx context.Context, done []played) error {
	b.stop()
	if err := b.start(); err != nil {
		return err
	}
	return b.again(ctx, done)
}

// drain: a draining host takes nothing new, and says that it did not start.
func (b *bed) drain(ctx context.Context, _ []played) error {
	b.host.Drain()
	p := played{Case: Case{Capability: b.anyCapability()}, action: fleet.NewActionID(b.o.App.Now())}
	got, err := b.dispatch(ctx, p, json.RawMessage(`{}`))
	if err == nil && got.code != host.CodeDraining {
		return fmt.Errorf("a new action while draining got %d %s", got.status, got.code)
	}
	return err
}

// stops: the connector ends when its host asks it to.
func (b *bed) stops(ctx context.Context, _ []played) error {
	ended := make(chan struct{})
	go func() {
		b.stop()
		b.adapter.Close()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return errors.New("the connector did not end in time")
	}
}
