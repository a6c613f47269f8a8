// Package tui is the dashboard: the fleet on one screen, live, for a person.
//
// It answers "what does the operator see, and what does a key do?". The model is
// functional: Update is a function of a message, views are functions of the model and
// the clock, and every read runs in a command with a deadline, so that a slow or
// failed registry never blocks a key. It reads through [registry.Reader] and
// [Explainer] alone and changes nothing.
//
// It guarantees that text from records never carries control, ANSI or bidirectional
// characters to the terminal (G18, G21), that a fence's token is never shown (G06),
// that "drained" is said only of what is observed (G37), that what is uncertain is
// counted on every screen (G38), that a refusal is shown with its rule (G40), and that
// old data is never shown as live.
//
// It does not own the terminal, the clock, the clipboard or the registry: who runs it
// hands them in.
package tui
