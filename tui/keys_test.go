package tui

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// TestKeys_G40_ArrivingInOnePieceAreEachPressed: a slow line delivers several keys at once.
func TestKeys_G40_ArrivingInOnePieceAreEachPressed(t *testing.T) {
	d := lab(t)
	d.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("2/zone=zone-b")})
	d.press("enter")
	d.shows("3 of 5 replicas", "filter zone=zone-b")
	d.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("q4"), Paste: true})
	d.shows("pasted text goes into / or :", "[2 replicas]")
}

func (d *driver) shows(parts ...string) {
	d.Helper()
	frame := d.m.Frame()
	for _, p := range parts {
		if !strings.Contains(frame, p) {
			d.Errorf("the screen does not show %q:\n%s", p, frame)
		}
	}
}

func (d *driver) hides(parts ...string) {
	d.Helper()
	frame := d.m.Frame()
	for _, p := range parts {
		if strings.Contains(frame, p) {
			d.Errorf("the screen shows %q:\n%s", p, frame)
		}
	}
}

func lab(t testing.TB) *driver {
	w := populated(t)
	return drive(w, w.config(), 120, 30)
}

// TestFilter_G40_TermsAndRefusals: every kind of term selects what it says, and a wrong
// one is refused with the fields there are, leaving the rows as they were.
func TestFilter_G40_TermsAndRefusals(t *testing.T) {
	for filter, want := range map[string]string{
		"":                              "5 replicas",
		"status=draining":               "1 of 5",
		"STATUS=Draining":               "1 of 5",
		"status!=ready":                 "2 of 5",
		"tenant~ACM":                    "3 of 5",
		"zone-b globex":                 "1 of 5",
		"lease<10s":                     "1 of 5",
		"lease<5m && status=ready":      "3 of 5",
		"active>0":                      "2 of 5",
		"capacity>=8":                   "1 of 5",
		"circuit=circuit_open":          "1 of 5",
		`tenant="glo·bex· 漢字"`:          "2 of 5",
		"https://a1.acme.example:7101":  "1 of 5",
		"endpoint=https://nothing:7101": "0 of 5",
	} {
		t.Run(filter, func(t *testing.T) {
			d := lab(t)
			d.press("2", "/", filter, "enter")
			d.shows(want)
		})
	}
	for filter, want := range map[string]string{
		"colour=red": `no field "colour"; fields: id`, "lease<soon": "needs a number or a duration", `tenant="x`: "a quote is not closed",
	} {
		d := lab(t)
		d.press("2", "/", filter)
		d.shows(want, "crepl_acme_a1", "crepl_globex_b1")
		d.press("enter")
		if d.m.input.kind != filterInput {
			t.Errorf("a filter that does not parse was accepted: %s", filter)
		}
		d.press("esc")
		d.shows("5 replicas")
	}
}

// TestFilter_G40_SurvivesNavigation: filter and sort are there again after leaving the
// screen, drilling down and coming back; Esc clears the filter.
func TestFilter_G40_SurvivesNavigation(t *testing.T) {
	d := lab(t)
	d.press("2", "/acme", "enter", "s", "1", "4", "2")
	d.shows("3 of 5 replicas", "filter acme", "sort id")
	d.press("enter")
	d.shows("› replica crepl_acme_a1", "Reserved routes")
	d.press("esc")
	d.shows("3 of 5 replicas", "filter acme")
	d.press("esc")
	d.shows("5 replicas")
	d.hides("filter acme")
}

// TestCursor_G40_StaysOnItsObject: the chosen object stays chosen when rows are
// sorted, filtered and read again, and its neighbour is when it is gone.
func TestCursor_G40_StaysOnItsObject(t *testing.T) {
	d := lab(t)
	d.press("2", "down", "down", "down")
	on := func(want string) {
		t.Helper()
		if got := d.m.replicas.key(); got != want {
			t.Fatalf("the cursor is on %s, want %s", got, want)
		}
	}
	on("crepl_globex_a1")
	for range 8 {
		d.press("s")
		on("crepl_globex_a1")
		d.press("S")
		on("crepl_globex_a1")
	}
	d.refresh()
	on("crepl_globex_a1")
	d.press("/acme")
	if d.m.replicas.key() == "crepl_globex_a1" {
		t.Error("a row that the filter hides is still chosen")
	}
	d.press("esc")
	on("crepl_globex_a1")
	d.press("4", "/act_held", "enter", "esc")
	if got := d.m.routes.key(); got != "act_held" {
		t.Errorf("after the filter is gone the cursor is on %s, want act_held", got)
	}
}

// TestCursor_G40_FollowsTheFirstRowUntilOneIsChosen: on a list whose newest comes first
// nobody is carried away by new rows, and one that was chosen is kept.
func TestCursor_G40_FollowsTheFirstRowUntilOneIsChosen(t *testing.T) {
	d := lab(t)
	for _, step := range []struct{ keys, want string }{{"4", "act_n1"}, {"j", "act_lost"}, {"j", "act_held"}, {"g", "act_n4"}} {
		d.press(step.keys)
		d.settle(d.resolve("acme", fmt.Sprintf("act_n%d", len(d.m.routes.rows)-3)), fleet.Settlement{Outcome: fleet.OutcomeCompleted})
		d.refresh()
		if got := d.m.routes.key(); got != step.want {
			t.Errorf("after %s the cursor is on %s, want %s", step.keys, got, step.want)
		}
	}
}

// TestDrill_G09_FromReplicaToRouteToWhy goes all the way down and back up.
func TestDrill_G09_FromReplicaToRouteToWhy(t *testing.T) {
	d := lab(t)
	d.press("2", "/status=draining", "enter", "enter")
	d.shows("replica crepl_acme_b1", "waits for 1 reservation", "act_held")
	for d.m.page().under(d.m.pageArea()).open.id != "act_held" {
		d.press("down")
		if d.m.page().at > 40 {
			t.Fatal("the reserved route cannot be chosen")
		}
	}
	d.press("enter")
	d.shows("› route act_held", "Attempts (1)", "attempt 1 holds its reservation, a retry joins it")
	d.press("w")
	d.shows("› why act_held", "holds the reservation", "drain_intent", "● eligible")
	d.press("esc", "esc", "esc")
	d.shows("[2 replicas]", "filter status=draining")
	if len(d.m.pages) != 0 {
		t.Errorf("%d pages are left", len(d.m.pages))
	}
}

// TestRetry_G25_SaysWhatARetryWouldDo covers each state that a route can be in.
func TestRetry_G25_SaysWhatARetryWouldDo(t *testing.T) {
	for action, want := range map[string]string{
		"act_done": "stored_result: the outcome is definite", "act_again": "reserved: attempt 2 holds", "act_lost": "reconcile: attempt 1 is uncertain",
	} {
		d := lab(t)
		d.press(":route "+action, "enter")
		d.shows(want)
	}
	w := populated(t)
	key := registry.ReconciliationKey{Action: must(fleet.ParseActionID("act_lost")), Fence: 1}
	if _, err := w.Decide(context.Background(), key, registry.Decision{Resolution: fleet.ResolvedDidNotHappen, By: "operator:test", Evidence: digest("e"), Document: []byte("d")}); err != nil {
		t.Fatal(err)
	}
	d := drive(w, w.config(), 120, 30)
	d.press(":route act_lost", "enter")
	d.shows("refused: its replica cannot be reserved now: circuit_open", "did_not_happen by operator:test")
	c := w.config()
	c.Router = nil
	d = drive(w, c, 120, 30)
	d.press(":route act_lost", "enter")
	d.shows("unknown: error[dash.router]")
}

// TestFeed_G40_StaleAndRecovered: a registry that fails makes the data stale and
// dimmed with the rule that refused, keys go on, the next attempts back off, and all is live again after.
func TestFeed_G40_StaleAndRecovered(t *testing.T) {
	w := populated(t)
	c := w.config()
	c.Theme, _ = FindTheme("mono")
	d := drive(w, c, 120, 30)
	d.press("2")
	d.shows("LIVE r1 0.0s")
	w.breaks(errAway)
	w.advance(12 * time.Second)
	d.refresh()
	d.shows("STALE 12s, retry in 2s", "error[registry.connect]: the registry cannot be reached", "\x1b[2m")
	d.press("/acme", "enter") // a key still works on the old rows; its reading fails too
	d.shows("STALE 12s, retry in 4s", "crepl_acme_a1")
	for range 10 {
		d.refresh()
	}
	d.shows("retry in 30s")
	w.breaks(nil)
	w.advance(31 * time.Second)
	if !d.m.feed.due(w.now()) {
		t.Error("no reading is due when the retry is")
	}
	d.refresh()
	d.shows("LIVE r1 0.0s")
	d.hides("STALE", "error[", "\x1b[2m")
}

// TestFeed_G40_OneReadAtATime: wishes that come while a read is under way are one
// more read, and no key waits.
func TestFeed_G40_OneReadAtATime(t *testing.T) {
	w := populated(t)
	m := New(w.config())
	first := m.Refresh()
	step := func(msg tea.Msg) tea.Cmd {
		next, cmd := m.Update(msg)
		m = next.(Model)
		return cmd
	}
	key := func(r rune) tea.Cmd { return step(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}}) }
	for _, r := range "24r2" {
		if key(r) != nil {
			t.Fatal("a second read was started while one is under way")
		}
	}
	second := step(first())
	if second == nil {
		t.Fatal("the wish was forgotten")
	}
	if r, ok := second().(reading); !ok || r.want.replicas == nil {
		t.Errorf("the second read is not of the screen shown now: %+v", r.want)
	}
	if step(second()) != nil {
		t.Error("a third read was started by nobody")
	}
}

// TestFeed_G40_PauseStandsStill: paused, nothing is read by itself.
func TestFeed_G40_PauseStandsStill(t *testing.T) {
	d := lab(t)
	d.press("2", "p")
	d.shows("PAUSED r1", "what you see stands still")
	d.advance(time.Minute)
	if d.m.feed.due(d.now()) {
		t.Error("a reading is due while paused")
	}
	d.shows("PAUSED r1 1m00s")
	d.press("p")
	d.shows("LIVE r1 0.0s")
}

// TestTally_G40_SaysWhenNotAllWereRead: a cut list says so, and an exact term goes to
// the registry and finds what was beyond the cut.
func TestTally_G40_SaysWhenNotAllWereRead(t *testing.T) {
	w := populated(t)
	c := w.config()
	c.MaxRows = 2
	d := drive(w, c, 120, 30)
	d.press("2")
	d.shows("2 replicas, only the first 2 were read: narrow with field=value")
	d.press("/", `instance=cinst_globex`, "enter")
	d.shows("crepl_globex_a1", "crepl_globex_b1")
	d.press("esc")
	d.shows("only the first 2 were read")
	d.press("4")
	d.shows("2 routes, only the first 2 were read")
}

// TestHostile_G18_NoRecordReachesTheTerminalRaw: text of records never carries
// control, ANSI or bidirectional characters, on any screen, nor in what is typed; the
// clipboard gets the id as it is.
func TestHostile_G18_NoRecordReachesTheTerminalRaw(t *testing.T) {
	for name, keys := range walks() {
		d := lab(t)
		d.press(keys...)
		for _, r := range ansi.Strip(d.m.View()) {
			if r != '\n' && (r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069) {
				t.Errorf("%s: the screen carries %U", name, r)
			}
		}
	}
	d := lab(t)
	d.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(":")})
	d.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("theme \x1b]0;x\x07\u202e"), Paste: true})
	d.press("enter")
	if strings.ContainsAny(d.m.Frame(), "\x07\x1b\u202e") {
		t.Errorf("pasted control characters are shown: %q", d.m.Frame())
	}
	d = lab(t)
	d.press(":replica crepl_globex_a1", "enter", "y")
	d.press("end")
	if !strings.Contains(strings.Join(d.m.page().facts.(jsonFacts).text, "\n"), `glo\u202ebex\u2066 漢字`) {
		t.Error("JSON does not escape what could mislead")
	}
}

// TestVeiled_G06_NoTokenOfAFenceIsShown: neither a page nor JSON shows one.
func TestVeiled_G06_NoTokenOfAFenceIsShown(t *testing.T) {
	w := populated(t)
	token := w.resolve("acme", "act_token").Attempt.Fence.Token
	for _, keys := range [][]string{{"4", "/act_token", "enter", "y"}, {":route act_token", "enter", "y"}, {":replica crepl_acme_a1", "enter", "y"}} {
		d := drive(w, w.config(), 200, 400)
		d.press(keys...)
		if len(token) != 32 || strings.Contains(d.m.View(), token) {
			t.Errorf("%v shows the token %q", keys, token)
		}
	}
}

// TestCommands_G40_RunCompleteRefuse covers the command line.
func TestCommands_G40_RunCompleteRefuse(t *testing.T) {
	d := lab(t)
	d.press(":rep", "tab")
	if d.m.input.text != "replica" {
		t.Errorf("Tab completes rep to %q", d.m.input.text)
	}
	d.press("s st", "tab", "d", "tab", "enter")
	d.shows("[2 replicas]", "1 of 5 replicas", "filter status=draining")
	d.press(":routs", "enter")
	d.shows("no command routs; did you mean :route?")
	d.press(":replica nonsense", "enter")
	d.shows("replica")
	if len(d.m.pages) != 0 {
		t.Error("an id that does not parse opened a page")
	}
	d.press(":replica crepl_gone", "enter")
	d.shows("There is no replica crepl_gone in this registry")
	d.press(":theme nonsense", "enter")
	d.shows("no theme nonsense; themes: dark light")
	d.press("3")
	d.shows("instances: not in this version; aipctl get instances")
	d.press("x")
	d.shows("read-only")
	d.press(":overview", "enter")
	d.shows("[1 overview]")
	d.press("right", "down", "down", "left", "enter")
	d.shows("[2 replicas]", "filter drain=yes")
	if cmd := d.m.run("quit"); cmd == nil {
		t.Error(":quit does not quit")
	}
}

// TestCopy_G40_GoesToTheClipboardAndTheScreen covers c, C and marks.
func TestCopy_G40_GoesToTheClipboardAndTheScreen(t *testing.T) {
	w := populated(t)
	c := w.config()
	var got []string
	c.Copy = func(s string) error { got = append(got, s); return nil }
	d := drive(w, c, 120, 30)
	d.press("2", "c")
	d.shows("copied crepl_acme_a1")
	d.press("C")
	d.press(" ", " ", "/globex", "enter")
	d.shows("2 marked (2 not shown)")
	d.press("c")
	d.shows("copied 2 ids")
	d.press("esc", ":why act_lost", "enter", "C")
	want := []string{"crepl_acme_a1", "aipctl describe replica crepl_acme_a1", "crepl_acme_a1\ncrepl_acme_b1",
		"aipctl route explain --tenant 'glo·bex· 漢字' --capability desk:open --action act_lost"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("copied %q\nwant %q", got, want)
	}
	c.Copy = nil
	d = drive(w, c, 120, 30)
	d.press("2", "c")
	d.shows("crepl_acme_a1")
}

// TestDrain_G37_DrainedIsObserved: the tile counts a replica as drained only when it
// takes no work and holds none, whatever the intent.
func TestDrain_G37_DrainedIsObserved(t *testing.T) {
	w := populated(t)
	d := drive(w, w.config(), 120, 30)
	d.shows("◐ 0 of 1 drained", "1 still reserved")
	held, err := w.Lookup(context.Background(), tenantID("acme"), must(fleet.ParseActionID("act_held")))
	if err != nil {
		t.Fatal(err)
	}
	w.settle(held.Assignment(), fleet.Settlement{Outcome: fleet.OutcomeCompleted, Code: "dispatch.completed"})
	d.refresh()
	d.shows("● 1 of 1 drained", "0 still reserved")
}

// TestOverview_G38_UncertainIsCountedEverywhere: the header says it on every screen.
func TestOverview_G38_UncertainIsCountedEverywhere(t *testing.T) {
	d := lab(t)
	for _, keys := range []string{"1", "2", "4", "?"} {
		d.press(keys)
		d.shows("1 uncertain")
	}
	if r := d.m.Overview(); len(r.Attention) == 0 || r.Attention[0].State != "uncertain" || r.Status.Revision != 1 {
		t.Errorf("the report does not lead with what is uncertain: %+v", r)
	}
}

// TestSkew_G24_TimesAreTheRegistrys: a terminal whose clock is wrong shows leases as
// the registry sees them.
func TestSkew_G24_TimesAreTheRegistrys(t *testing.T) {
	w := populated(t)
	c := w.config()
	c.Now = func() time.Time { return w.now().Add(time.Hour) }
	d := drive(w, c, 120, 30)
	d.press("2")
	d.shows("in 4m45s")
	d.hides("ended")
}

// TestLinear_G37_SaysWhatChanged covers the lines for screen readers.
func TestLinear_G37_SaysWhatChanged(t *testing.T) {
	w := populated(t)
	c := w.config()
	before := must(c.Observe(context.Background()))
	if got, want := before.Summary(), "revision 1: 3 of 5 replicas ready, 1 draining, 1 offline; 2 of 8 reserved; 4 routes; 1 uncertain; 1 circuit open"; got != want {
		t.Errorf("summary %q\nwant    %q", got, want)
	}
	if lines := Changes(before, must(c.Observe(context.Background()))); len(lines) != 0 {
		t.Errorf("nothing changed, and it says %q", lines)
	}
	w.settle(w.resolve("acme", "act_new"), fleet.Settlement{Outcome: fleet.OutcomeUnknown, Code: "dispatch.no_answer"})
	if _, err := w.Intend(context.Background(), registry.Intent{Replica: must(fleet.ParseReplicaID("crepl_acme_a1")), Want: fleet.IntentDrain, Actor: "t", Reason: "t"}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"replica crepl_acme_a1 is ready, to be drained, was ready",
		"route act_new is new: outcome_unknown on crepl_acme_a1, fence 1",
		"uncertain attempts: 2, were 1",
	}
	if got := Changes(before, must(c.Observe(context.Background()))); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("it says  %q\nwant     %q", got, want)
	}
}

// TestBounded_G40_ReadsEndBeforeTheRegistryCloses: wait ends a read under way, refuses
// later ones, and returns after both.
func TestBounded_G40_ReadsEndBeforeTheRegistryCloses(t *testing.T) {
	begin, wait := Bounded(context.Background(), time.Hour)
	ctx, done := begin()
	ended := make(chan struct{})
	go func() {
		<-ctx.Done()
		close(ended)
		done()
	}()
	wait()
	<-ended
	later, done := begin()
	defer done()
	if later.Err() == nil {
		t.Error("a read may begin after the end")
	}
	short, _ := Bounded(context.Background(), time.Nanosecond)
	ctx, done = short()
	defer done()
	<-ctx.Done()
	c := Config{Reader: populated(t), Begin: func() (context.Context, func()) { return ctx, func() {} }, Now: time.Now}.withDefaults()
	if err := c.read(want{})().(reading).err; !fleet.Is(err, fleet.Unavailable) || fleet.CodeOf(err) != "dash.slow" {
		t.Errorf("a read that is too slow says %v", err)
	}
}

// TestLayout_G40_IdentitiesKeepBothEnds: where an identity has to be cut its last
// characters stay, by which minted ones differ; where there is room it is whole.
func TestLayout_G40_IdentitiesKeepBothEnds(t *testing.T) {
	w := populated(t)
	const id = "act_0199a3b4c5d67e8f9a0b1c2d3e4f5a6b"
	w.resolve("acme", id)
	d := drive(w, w.config(), 120, 20)
	d.press("4")
	d.shows("› " + id + "  ")
	d.send(tea.WindowSizeMsg{Width: 60, Height: 12})
	d.shows("› act_01", "2d3e4f5a6b ", "◐ reserved")
}
