package desk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func withRules(t *testing.T, rules ...Rule) (string, *Desk) {
	t.Helper()
	dir := t.TempDir()
	if err := WriteFaults(dir, Faults{Rules: rules}); err != nil {
		t.Fatal(err)
	}
	return dir, openIn(t, dir)
}

func TestFault_G26_AnErrorBeforeTheEffectIsARefusalAndAfterItIsNot(t *testing.T) {
	dir, d := withRules(t,
		Rule{ID: "before", TitlePrefix: "b:", At: BeforeEffect, Action: ActionError},
		Rule{ID: "after", TitlePrefix: "a:", At: AfterEffect, Action: ActionError})
	if _, err := d.OpenTicket(bounded(t), Call{}, "b: x", "", ""); !errors.Is(err, ErrFault) || errors.Is(err, ErrAfterEffect) {
		t.Errorf("before the effect: %v", err)
	}
	if got := tally(t, dir); got.Effects != 0 {
		t.Errorf("%d effects after a refusal", got.Effects)
	}
	if _, err := d.OpenTicket(bounded(t), Call{}, "a: x", "", ""); !errors.Is(err, ErrAfterEffect) {
		t.Errorf("after the effect: %v", err)
	}
	if got := tally(t, dir); got.Effects != 1 {
		t.Errorf("%d effects, want the one that was made before the failure", got.Effects)
	}
}

func TestFault_G39_ARuleFiresItsTimesOverAllDesksAndRestarts(t *testing.T) {
	dir, d := withRules(t, Rule{ID: "twice", Tool: OpenTicketTool, At: BeforeEffect, Action: ActionError, Times: 2})
	for n, desk := range []*Desk{d, openIn(t, dir), openIn(t, dir)} {
		_, err := desk.OpenTicket(bounded(t), Call{IdempotencyKey: "k"}, "x", "", "")
		if failed := errors.Is(err, ErrFault); failed != (n < 2) {
			t.Errorf("call %d: %v", n+1, err)
		}
	}
	fired, err := ReadFired(dir)
	if err != nil || len(fired) != 2 || fired[0].Rule != "twice" || fired[0].IdempotencyKey != "k" || fired[0].Process != os.Getpid() {
		t.Errorf("fired = %+v, %v; want two records", fired, err)
	}
}

func TestFault_G26_ACrashStrikesWhereItWasTold(t *testing.T) {
	for _, row := range []struct {
		at      string
		effects int
	}{{BeforeEffect, 0}, {AfterEffect, 1}} {
		dir := t.TempDir()
		if err := WriteFaults(dir, Faults{Rules: []Rule{{ID: "c", At: row.at, Action: ActionCrash}}}); err != nil {
			t.Fatal(err)
		}
		var seen Tally
		crash := func() { seen = tally(t, dir); seen.Keyless++ }
		d, err := Open(Options{Dir: dir, Token: "t", Now: func() time.Time { return noon }, Crash: crash})
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.OpenTicket(bounded(t), Call{IdempotencyKey: "k"}, "x", "", "")
		if !errors.Is(err, ErrUncertain) || seen.Effects != row.effects || seen.Keyless == 0 {
			t.Errorf("%s: %v; %d effects stood at the crash, want %d", row.at, err, seen.Effects, row.effects)
		}
		d.Close()
	}
}

// A stall after the effect holds one call, and nothing else: its effect can be
// found, and other calls go on.
func TestFault_G38_AStalledCallsEffectIsFoundByItsKey(t *testing.T) {
	dir, d := withRules(t, Rule{ID: "s", TitlePrefix: "slow", At: AfterEffect, Action: ActionStall})
	answered := make(chan error, 1)
	go func() {
		_, err := d.OpenTicket(context.Background(), Call{IdempotencyKey: "k"}, "slow one", "", "")
		answered <- err
	}()
	waitFired(t, dir)
	found, err := d.FindOperation("k")
	if err != nil || !found.Found || !found.UnderWay || found.Effect.TicketID != "acme-1" {
		t.Errorf("while it stalls: %+v, %v", found, err)
	}
	if _, err := d.OpenTicket(bounded(t), Call{}, "quick one", "", ""); err != nil {
		t.Errorf("another call is held up: %v", err)
	}
	select {
	case err := <-answered:
		t.Fatalf("the call did not stall: %v", err)
	default:
	}
	if err := Release(dir); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("after the release: %v", err)
	}
	if found, err := d.FindOperation("k"); err != nil || found.UnderWay {
		t.Errorf("after the answer: %+v, %v", found, err)
	}
}

func TestFault_G26_AStallBeforeTheEffectEndsWithItsCallerAndHasNone(t *testing.T) {
	dir, d := withRules(t, Rule{ID: "s", At: BeforeEffect, Action: ActionStall})
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan error, 1)
	go func() {
		_, err := d.OpenTicket(ctx, Call{IdempotencyKey: "k"}, "x", "", "")
		answered <- err
	}()
	waitFired(t, dir)
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("the stalled call: %v", err)
	}
	if found, err := d.FindOperation("k"); err != nil || found.Found || found.UnderWay {
		t.Errorf("afterwards: %+v, %v; want nothing", found, err)
	}
}

func TestFault_G40_AWrongFileRefusesCallsAndNamesTheRule(t *testing.T) {
	dir, d := withRules(t)
	for _, text := range []string{
		`{"rules":[{"id":"r","at":"sometimes","action":"crash"}]}`,
		`{"rules":[{"id":"r","at":"before_effect","action":"explode"}]}`,
		`{"rules":[{"at":"before_effect","action":"crash"}]}`,
		`{"rules":[{"id":"r","at":"before_effect","action":"crash","stall":1}]}`,
		`{"rules":[{"id":"r","at":"before_effect","action":"error"},{"id":"r","at":"before_effect","action":"error"}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, faultsName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.OpenTicket(bounded(t), Call{}, "x", "", ""); err == nil {
			t.Errorf("rules %s were accepted", text)
		}
	}
	if got := tally(t, dir); got.Effects != 0 {
		t.Errorf("%d effects under unreadable rules", got.Effects)
	}
}

func waitFired(t *testing.T, dir string) {
	t.Helper()
	ctx := bounded(t)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		fired, err := ReadFired(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(fired) > 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("no fault struck")
		case <-tick.C:
		}
	}
}

// A repeat of a key is one effect and two calls: who counts calls finds it.
func TestCalled_G25_EveryCallIsWrittenDownOnceAskedFor(t *testing.T) {
	dir := t.TempDir()
	d := openIn(t, dir)
	call := Call{ActionID: "act_1", IdempotencyKey: "key-1"}
	for range 2 {
		if _, err := d.OpenTicket(t.Context(), call, "one", "", ""); err != nil {
			t.Fatal(err)
		}
		if err := RecordCalls(dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.OpenTicket(t.Context(), call, "one", "", ""); err != nil {
		t.Fatal(err)
	}
	calls, err := ReadCalls(dir)
	if err != nil || len(calls) != 2 || calls[0].ActionID != "act_1" || calls[1].IdempotencyKey != "key-1" {
		t.Errorf("calls %+v, %v: want the two since it was asked for", calls, err)
	}
	if effects, err := ReadEffects(dir); err != nil || len(effects) != 1 {
		t.Errorf("effects %+v, %v", effects, err)
	}
}
