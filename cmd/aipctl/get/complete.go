package get

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/noun"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// completionDeadline is how long a shell may be kept waiting for ids.
const completionDeadline = 250 * time.Millisecond

// CompleteNounAndIDs completes a noun, then ids of its records.
func CompleteNounAndIDs(a *app.App, nouns []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return startingWith(prefix, nouns), cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd.Context(), a, args[0], prefix), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteIDs completes ids of one noun.
func CompleteIDs(a *app.App, n string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return complete(cmd.Context(), a, n, prefix), cobra.ShellCompDirectiveNoFileComp
	}
}

// complete reads ids within the deadline; what takes longer, or fails, completes nothing.
func complete(ctx context.Context, a *app.App, word, prefix string) []string {
	n, err := noun.Find(word)
	if err != nil {
		return nil
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionDeadline)
	defer cancel()
	reg, err := a.OpenRegistry(ctx, app.ReadOnly)
	if err != nil {
		return nil
	}
	defer reg.Close()
	return startingWith(prefix, known(ctx, reg, n))
}

func startingWith(prefix string, words []string) []string {
	var kept []string
	for _, w := range words {
		if strings.HasPrefix(w, prefix) {
			kept = append(kept, fleet.Printable(w, 300))
		}
	}
	return kept
}

// known lists the names of one page of records; an error lists none.
func known(ctx context.Context, reader registry.Reader, n noun.Noun) []string {
	_, records, err := n.List(ctx, reader, registry.Selection{Limit: registry.MaxListItems}, false)
	if err != nil {
		return nil
	}
	names := make([]string, len(records))
	for i, r := range records {
		names[i] = n.Name(r)
	}
	return names
}

// NotFound is the error for ids that name no record, with those that were probably meant.
func NotFound(ctx context.Context, reader registry.Reader, n noun.Noun, ids []string) error {
	e := fleet.Errorf(fleet.NotFound, n.Single+".not_found", "no %s %s", n.Single, fleet.Printable(strings.Join(ids, ", "), 200)).
		Because("the registry has no record under that id").Advise("aipctl get %s", n.Plural)
	if near := app.Suggest(ids[0], known(ctx, reader, n)); len(near) > 0 {
		return e.Advise("did you mean %s?", strings.Join(near, " or "))
	}
	return e
}
