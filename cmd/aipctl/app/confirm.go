package app

import (
	"bufio"
	"io"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Level is a step of the confirmation ladder.
type Level int

// The steps. A target marked production lifts every step to ConfirmName.
const (
	ConfirmNone Level = iota // one reversible object
	ConfirmYes               // several objects, or an effect on routes: y, or --yes
	ConfirmName              // the last of something, or much of it: type the name and give a reason, or --yes --confirm NAME --reason
)

// Confirm asks before a change. summary says what will happen and how much of it;
// name is what must be typed at the last step. It never asks a caller without a
// terminal or in a machine format: it refuses, names the flags, and exits with 11.
func (a *App) Confirm(level Level, summary, name string) error {
	if target, err := a.Target(); err == nil && target.Production {
		level = ConfirmName
	}
	switch level {
	case ConfirmNone:
		return nil
	case ConfirmYes:
		return a.confirmYes(summary)
	}
	return a.confirmName(summary, name)
}

func (a *App) confirmYes(summary string) error {
	if a.Yes {
		return nil
	}
	if !a.interactive() {
		return refused("confirm.needed", "this asks for confirmation, and nobody can be asked").
			because(summary, "repeat with --yes")
	}
	a.sayLines(summary)
	if answer := a.ask("Go ahead? [y/N] "); answer != "y" && answer != "yes" {
		return refused("confirm.refused", "not confirmed").because("the answer was not y", "nothing was changed")
	}
	return nil
}

func (a *App) confirmName(summary, name string) error {
	if a.Reason == "" {
		return refused("confirm.reason", "this change needs a reason").because(summary, "repeat with --reason TEXT")
	}
	if a.Yes && a.Named == name {
		return nil
	}
	if !a.interactive() || a.Yes {
		return refused("confirm.needed", "this change asks for the name of what it changes").
			because(summary, "repeat with --yes --confirm "+name+" --reason TEXT")
	}
	a.sayLines(summary)
	if a.ask("Type "+fleet.Printable(name, 200)+" to go ahead: ") != name {
		return refused("confirm.refused", "not confirmed").because("the name typed was another", "nothing was changed")
	}
	return nil
}

// interactive reports whether a question can be asked and answered.
func (a *App) interactive() bool { return a.InTTY && a.ErrTTY && !a.machine() }

func (a *App) sayLines(text string) {
	for _, line := range strings.Split(text, "\n") {
		a.Sayf("%s", line)
	}
}

func (a *App) ask(question string) string {
	_, _ = io.WriteString(a.Err, question)
	line, err := bufio.NewReader(io.LimitReader(a.In, 4096)).ReadString('\n')
	if err != nil && line == "" {
		return ""
	}
	return strings.TrimSpace(line)
}

// refusal builds the error of a confirmation that was not given.
type refusal struct{ err *fleet.Error }

func refused(code, what string) refusal { return refusal{fleet.Errorf(fleet.Denied, code, "%s", what)} }

func (r refusal) because(why, next string) error {
	first, _, _ := strings.Cut(why, "\n")
	return WithExit(r.err.Because("%s", first).Advise("%s", next), ExitRefused)
}
