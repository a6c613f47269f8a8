package dev

import (
	"fmt"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/showcase"
)

// summaryPage is the summary for people.
func summaryPage(s showcase.Summary, path string) app.Page {
	verdict := "every check holds"
	passed := 0
	for _, c := range s.Checks {
		if c.OK {
			passed++
		}
	}
	if !s.OK {
		verdict = "some checks failed"
	}
	number := func(label string, n int) app.Field { return app.Field{Label: label, Value: fmt.Sprint(n)} }
	return app.Page{{
		Title: "Counted at the end, from what was stored",
		Fields: []app.Field{
			number("Actions", s.Actions), number("Routes", s.Routes), number("Attempts", s.Attempts),
			number("Provider effects", s.ProviderEffects), number("Duplicates", s.Duplicates),
			number("Unknown", s.Unknown), number("Reconciled", s.Reconciled), number("Drained", s.Drained),
			number("Broken invariants", s.Violations), number("Processes left", s.Processes),
			{Label: "Checks", Value: fmt.Sprintf("%d of %d: %s", passed, len(s.Checks), verdict)},
			{Label: "Time", Value: fmt.Sprintf("%.1f s", s.Seconds)},
			{Label: "Summary", Value: path},
		},
	}}
}
