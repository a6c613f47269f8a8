package drain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/impact"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// shownInQuestion is how many replicas a question names before it counts the others.
const shownInQuestion = 20

// confirm says what is about to happen, and what is in flight there, and asks.
func (w *work) confirm(judged impact.Impact) error {
	if w.Want == fleet.IntentRun {
		return w.App.Confirm(levelFor(len(w.states)), app.Plural(len(w.states), "replica")+" may take work again", w.IDs[0])
	}
	return w.App.Confirm(judged.Level(app.ConfirmYes), strings.Join(w.question(judged), "\n"), w.IDs[0])
}

func levelFor(n int) app.Level {
	if n > 1 {
		return app.ConfirmYes
	}
	return app.ConfirmNone
}

func (w *work) question(judged impact.Impact) []string {
	lines := []string{app.Plural(len(w.states), "replica") + " to take no new work and to finish what is pinned" + w.pace() + ":"}
	for i, s := range w.states {
		if i == shownInQuestion {
			lines = append(lines, fmt.Sprintf("  and %d more; --dry-run shows all", len(w.states)-shownInQuestion))
			break
		}
		lines = append(lines, "  "+s.Replica.String()+s.inFlight())
	}
	return append(lines, judged.Lines()...)
}

// inFlight says what a replica has to finish.
func (s State) inFlight() string {
	text := ""
	if len(s.Blockers) > 0 {
		text += ", " + app.Plural(len(s.Blockers), "attempt") + " in flight"
	}
	if s.Uncertain > 0 {
		text += fmt.Sprintf(", %d uncertain", s.Uncertain)
	}
	return text
}

// preview shows every replica and what is in flight there; what tenants lose by it, and
// how fast it would go, is said on stderr.
func (w *work) preview(judged impact.Impact) error {
	if w.Want == fleet.IntentDrain {
		w.App.Progressf("dry run: %s would be drained%s", app.Plural(len(w.states), "replica"), w.pace())
		for _, line := range judged.Lines() {
			w.App.Progressf("%s", line)
		}
	}
	return w.print()
}

// print shows every replica as it was last seen, with its result.
func (w *work) print() error {
	batched := len(w.batches) > 1
	return w.App.Print(app.View{
		Kind: "Drain", Items: app.Items(w.states),
		Table: func(bool) app.Table {
			t := app.Table{Header: []string{"REPLICA", "INTENT", "STATUS", "ACTIVE", "UNSETTLED", "UNCERTAIN", "NOW"}}
			for _, s := range w.states {
				t.Rows = append(t.Rows, []string{s.Replica.String(), string(s.Intent), app.Status(string(s.Status)), fmt.Sprint(s.Active),
					fmt.Sprint(len(s.Blockers)), fmt.Sprint(s.Uncertain), w.now(s)})
			}
			if batched {
				t.Header = slices.Insert(t.Header, 1, "BATCH")
				for i, s := range w.states {
					t.Rows[i] = slices.Insert(t.Rows[i], 1, fmt.Sprint(s.Batch))
				}
			}
			return t
		},
	})
}

func (w *work) now(s State) string {
	planned := w.DryRun && s.Intent == fleet.IntentRun
	switch {
	case s.Error != nil || s.Result == NotStarted:
	case w.Want == fleet.IntentRun || planned && len(s.Blockers) == 0:
		return ""
	case planned:
		return "would have to finish " + s.holders()
	}
	return s.why()
}
