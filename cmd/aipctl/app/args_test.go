package app_test

import (
	"testing"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// TestNumbered_G40_SaysWhatIsNotThere: a text that is no number, and a number that none has.
func TestNumbered_G40_SaysWhatIsNotThere(t *testing.T) {
	for text, want := range map[string]string{"7": "", "8": "trust.revision", "seven": "usage.arguments", "-7": "usage.arguments"} {
		got, err := app.Numbered([]uint64{3, 7}, func(n uint64) uint64 { return n }, app.Number{
			Text: text, What: "trust revision", Code: "trust.revision", Next: "aipctl trust history",
		})
		if fleet.CodeOf(err) != want || (err == nil) != (got == 7) {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
}
