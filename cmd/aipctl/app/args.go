package app

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// NoArgs refuses any argument.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return Usagef("usage.arguments", "%s takes no arguments, got %q", cmd.CommandPath(), fleet.Printable(args[0], 80)).
		Advise("%s --help", cmd.CommandPath())
}

// MinArgs asks for at least n arguments; what names the missing ones.
func MinArgs(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= n {
			return nil
		}
		return missingArgs(cmd, what)
	}
}

// ExactArgs asks for exactly n arguments.
func ExactArgs(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return missingArgs(cmd, what)
		case len(args) > n:
			return Usagef("usage.arguments", "%s takes %s and nothing more, got %q too", cmd.CommandPath(), what, fleet.Printable(strings.Join(args[n:], " "), 80)).
				Advise("%s --help", cmd.CommandPath())
		}
		return nil
	}
}

func missingArgs(cmd *cobra.Command, what string) error {
	return Usagef("usage.arguments", "%s needs %s", cmd.CommandPath(), what).Advise("usage: %s", cmd.UseLine())
}
