// Package silence keeps aipctl from asking the terminal questions at start.
//
// It answers "why does aipctl version not stall on a slow terminal?". The library
// under the dashboard asks the terminal for its background colour while it is being
// initialised, in every program that links it and for every command, and waits up to
// five seconds for the answer. This package gives that answer first: it depends on
// less than that library and its path sorts before it, so the language initialises it
// earlier. It is the one package of the fleet whose initialisation has an effect, and
// it has no other content. The dashboard's own themes do not depend on the answer.
package silence

import "github.com/charmbracelet/lipgloss"

var _ = answer()

func answer() bool {
	lipgloss.SetHasDarkBackground(true)
	return true
}
