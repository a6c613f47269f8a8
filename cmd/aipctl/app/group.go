package app

import "github.com/spf13/cobra"

// GroupCommand makes a command that only holds others: alone it shows its help.
func GroupCommand(use, short, group string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, GroupID: group, Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}
