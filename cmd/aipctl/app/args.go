package app

import (
	"strconv"
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

// AtMostArgs takes up to n arguments.
func AtMostArgs(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= n {
			return nil
		}
		return ExactArgs(n, what)(cmd, args)
	}
}

// Number is a numbered thing as it was asked for.
type Number struct {
	Text string // the argument
	What string // "trust revision"
	Code string // when there is none of that number
	Next string // lists them
}

// Numbered finds the one of that number. Kinds Usage, code usage.arguments, when the
// text is no number, and NotFound.
func Numbered[T any](all []T, number func(T) uint64, n Number) (T, error) {
	var none T
	wanted, err := strconv.ParseUint(n.Text, 10, 63)
	if err != nil {
		return none, Usagef("usage.arguments", "%q is not the number of a %s", fleet.Printable(n.Text, 40), n.What).Advise("%s", n.Next)
	}
	for _, one := range all {
		if number(one) == wanted {
			return one, nil
		}
	}
	return none, fleet.Errorf(fleet.NotFound, n.Code, "there is no %s %d", n.What, wanted).Advise("%s", n.Next)
}

func missingArgs(cmd *cobra.Command, what string) error {
	return Usagef("usage.arguments", "%s needs %s", cmd.CommandPath(), what).Advise("usage: %s", cmd.UseLine())
}
