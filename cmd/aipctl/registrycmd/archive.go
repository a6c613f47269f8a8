package registrycmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

func archiveCommand(a *app.App) *cobra.Command {
	plan := migrate.ArchivePlan{}
	cmd := &cobra.Command{
		Use: "archive", Short: "Move old settled routes to the archive, as aip_migrate", Args: app.NoArgs,
		Long: "Moves routes whose last event is older than --older-than out of the tables that the hot path reads. Without\n" +
			"this command routes are kept for ever. What is reserved, uncertain or not final stays. The action id of an\n" +
			"archived route stays taken: such an action is answered with a conflict. It works in bounded batches, oldest\n" +
			"first, and may be stopped and repeated. aipctl get archived lists what was moved.",
		Example: "  aipctl registry archive --older-than 2160h --dry-run",
		RunE:    func(cmd *cobra.Command, _ []string) error { return archive(cmd.Context(), a, plan) },
	}
	f := cmd.Flags()
	f.DurationVar(&plan.OlderThan, "older-than", 0, "`age` of the newest event of a route, 24h at least, as in 2160h")
	f.IntVar(&plan.Batch, "batch", migrate.DefaultArchiveBatch, "routes of one transaction")
	f.IntVar(&plan.Limit, "limit", 0, "archive at most this many; 0 is no limit")
	f.BoolVar(&plan.DryRun, "dry-run", false, "count what would be archived, and change nothing")
	return cmd
}

func archive(ctx context.Context, a *app.App, plan migrate.ArchivePlan) error {
	if plan.OlderThan < migrate.MinArchiveAge {
		return app.Usagef("registry.archive_age", "--older-than is needed, and at least %s", migrate.MinArchiveAge)
	}
	target, err := url(a, app.Migrate)
	if err != nil {
		return err
	}
	if !plan.DryRun {
		summary := fmt.Sprintf("settled routes older than %s move to the archive; their action ids stay taken and cannot be asked for again", plan.OlderThan)
		if err := a.Confirm(app.ConfirmYes, summary, "archive"); err != nil {
			return err
		}
	}
	a.Progressf("archiving")
	report, err := migrate.Archive(ctx, target, plan)
	if err != nil {
		return err
	}
	return a.Print(app.View{
		Kind: "ArchiveReport", Item: report, Name: func(any) string { return "archive" },
		Text: func() app.Page { return archivePage(report) },
	})
}

func archivePage(r migrate.ArchiveReport) app.Page {
	done := "archived"
	if r.DryRun {
		done = "would be archived"
	}
	fields := []app.Field{
		{Label: "older than", Value: r.Before.UTC().Format(time.RFC3339)},
		{Label: "looked at", Value: fmt.Sprintf("%d routes in %d batches", r.Seen, r.Batches)},
		{Label: done, Value: fmt.Sprint(r.Archived)},
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Kept)) {
		fields = append(fields, app.Field{Label: "kept, " + reason, Value: fmt.Sprint(r.Kept[reason])})
	}
	if r.More {
		fields = append(fields, app.Field{Label: "more", Value: "the limit was reached: run it again"})
	}
	return app.Page{{Title: "Archive", Fields: fields}}
}
