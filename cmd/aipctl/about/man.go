package about

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

func manCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "man", Short: "Print the manual page of every command", GroupID: app.GroupAbout, Args: app.NoArgs,
		Example: "  aipctl man | man -l -",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printScript(a, "Manual", script{"aipctl.1", manual(cmd.Root())})
		},
	}
}

// manual writes one page in the man macros.
func manual(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(".TH AIPCTL 1\n.SH NAME\naipctl \\- " + roff(root.Short) + "\n.SH SYNOPSIS\n.B aipctl\n\\fICOMMAND\\fR [\\fIFLAGS\\fR]\n")
	b.WriteString(".SH DESCRIPTION\n" + roff(root.Long) + "\n.SH COMMANDS\n")
	walk(root, func(c *cobra.Command) {
		b.WriteString(".SS " + roff(c.UseLine()) + "\n" + roff(about(c)) + "\n")
		manFlags(&b, c.LocalNonPersistentFlags())
	})
	b.WriteString(".SH GLOBAL FLAGS\n")
	manFlags(&b, root.PersistentFlags())
	b.WriteString(".SH EXIT STATUS\n")
	for _, e := range exitCodes() {
		b.WriteString(fmt.Sprintf(".TP\n.B %d\n%s\n", e.Code, roff(e.Meaning)))
	}
	return b.String()
}

func about(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short + "."
}

func walk(c *cobra.Command, visit func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		if sub.HasAvailableSubCommands() {
			walk(sub, visit)
			continue
		}
		visit(sub)
	}
}

func manFlags(b *strings.Builder, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		b.WriteString(".TP\n.B \\-\\-" + roff(f.Name) + " " + roff(name) + "\n" + roff(usage) + "\n")
	})
}

// roff escapes text for the man macros.
func roff(s string) string {
	s = strings.ReplaceAll(s, `\`, `\\`)
	s = strings.ReplaceAll(s, "-", `\-`)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// exitCode is one exit code and its meaning.
type exitCode struct {
	Code    int    `json:"code"`
	Meaning string `json:"meaning"`
}

func exitCodes() []exitCode {
	return []exitCode{
		{0, "done"}, {1, "definitely failed"}, {app.ExitUsage, "the command line or a file given to it is wrong"},
		{fleet.NotFound.Info().ExitCode, "no such thing"}, {fleet.Denied.Info().ExitCode, "not allowed"},
		{fleet.Conflict.Info().ExitCode, "conflict, or the plan is stale"}, {app.ExitTimeout, "waiting ended; it is still going on"},
		{app.ExitUncertain, "it may have happened; reconcile"}, {app.ExitPartial, "some of it was done"},
		{fleet.Unavailable.Info().ExitCode, "a dependency is away, nothing happened; try again"},
		{app.ExitChanges, "the plan has changes (only with --exit-code)"}, {app.ExitRefused, "a confirmation was refused or could not be asked for"},
		{app.ExitInterrupted, "interrupted"},
	}
}
