package main

import (
	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
)

// root assembles the command tree.
func root(a *app.App) *cobra.Command { return a.Root() }
