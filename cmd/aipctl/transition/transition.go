// Package transition is aipctl promote, deprecate, quarantine and revoke: the life
// of an admitted version.
//
// It answers "may this release take work?". Every move needs a reason, is one
// catalog revision and is journaled; revoking is final.
package transition

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/get"
	"github.com/aipfleet/aipfleet/cmd/aipctl/impact"
	"github.com/aipfleet/aipfleet/cmd/aipctl/noun"
	"github.com/aipfleet/aipfleet/cmd/aipctl/publish"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// move is one verb.
type move struct {
	verb, short string
	to          fleet.VersionStatus
	losesWork   bool // its replicas take no new work afterwards
}

// Commands makes aipctl promote, deprecate, quarantine and revoke.
func Commands(a *app.App) []*cobra.Command {
	moves := []move{
		{"promote", "Let an admitted version take work, or a quarantined one return to where it was", fleet.VersionActive, false},
		{"deprecate", "Let only instances that list a version already go on with it", fleet.VersionDeprecated, false},
		{"quarantine", "Stop new work on a version; pinned work may go on", fleet.VersionQuarantined, true},
		{"revoke", "End a version for good; it never takes work again", fleet.VersionRevoked, true},
	}
	var commands []*cobra.Command
	for _, m := range moves {
		commands = append(commands, &cobra.Command{
			Use: m.verb + " version ID", Short: m.short, GroupID: app.GroupChange,
			Args: app.ExactArgs(2, "version and an id"), ValidArgsFunction: get.CompleteNounAndIDs(a, []string{"version"}),
			RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), a, m, args) },
		})
	}
	return commands
}

func run(ctx context.Context, a *app.App, m move, args []string) error {
	if args[0] != "version" {
		return app.Unknown("usage.noun", "noun", args[0], []string{"version"})
	}
	id, err := fleet.ParseVersionID(args[1])
	if err != nil {
		return err
	}
	if a.Reason == "" {
		return app.Usagef("usage.reason", "%s needs --reason", m.verb).Because("every move of a version is journaled with its reason").
			Advise("aipctl %s version %s --reason TEXT", m.verb, id)
	}
	reg, err := a.OpenRegistry(ctx, app.Control)
	if err != nil {
		return err
	}
	defer reg.Close()
	version, err := find(ctx, reg, id)
	if err != nil {
		return err
	}
	to := m.to
	if m.verb == "promote" && version.Status == fleet.VersionQuarantined {
		to = version.StatusBefore
	}
	if err := confirm(ctx, a, reg, m, version); err != nil {
		return err
	}
	done, err := reg.Transition(ctx, registry.VersionTransition{Version: id, To: to, Actor: a.Actor(), Reason: a.Reason})
	if err != nil {
		return err
	}
	return publish.Print(a, "Publication", done)
}

func find(ctx context.Context, reader registry.Reader, id fleet.VersionID) (fleet.ConnectorVersion, error) {
	page, err := reader.List(ctx, registry.Selection{Noun: registry.Versions, IDs: []string{id.String()}})
	if err != nil {
		return fleet.ConnectorVersion{}, err
	}
	if len(page.Versions) == 0 {
		n, err := noun.Find("versions")
		if err != nil {
			return fleet.ConnectorVersion{}, err
		}
		return fleet.ConnectorVersion{}, get.NotFound(ctx, reader, n, []string{id.String()})
	}
	return page.Versions[0], nil
}

// confirm asks when the move takes work away from replicas, or is final.
func confirm(ctx context.Context, a *app.App, reader registry.Reader, m move, v fleet.ConnectorVersion) error {
	level := app.ConfirmNone
	lines := []string{fmt.Sprintf("version %s (%s) of %s goes from %s to %s", v.ID, v.Version, v.Type, v.Status, m.to)}
	if m.losesWork {
		all, err := publish.ReadFleet(ctx, reader)
		if err != nil {
			return err
		}
		lost := func(r registry.ReplicaRecord) bool { return r.Version == v.ID }
		judged := impact.Of(all, lost, impact.NoBinding)
		serving := slices.DeleteFunc(slices.Clone(all.Replicas), func(r registry.ReplicaRecord) bool { return !lost(r) })
		lines = append(lines, "served by "+app.Plural(len(serving), "replica"))
		lines = append(lines, judged.Lines()...)
		level = judged.Level(app.ConfirmYes)
	}
	if m.to == fleet.VersionRevoked {
		level = app.ConfirmName
		lines = append(lines, "revoking is final")
	}
	return a.Confirm(level, strings.Join(lines, "\n"), v.ID.String())
}
