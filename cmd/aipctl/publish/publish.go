// Package publish takes a change set from an operator's intent to one catalog
// revision: preview, field-level difference, confirmation, application.
//
// It answers "what exactly would change, and is it still so?". A change set is
// applied against the revision that its preview was made at, so a registry that
// moved in between refuses it (G13). It does not own the grammar of the intent.
package publish

import (
	"context"
	"fmt"
	"strings"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/impact"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Change is a change set and how it is to be published.
type Change struct {
	Set      registry.ChangeSet
	Name     string // what the last step of the ladder wants typed
	Level    app.Level
	Revision uint64 // the revision that the caller's plan was made at; 0 takes the preview's
}

// Plan previews and prints; it changes nothing. With exitCode, a plan that has
// changes ends with exit code 10.
func Plan(ctx context.Context, a *app.App, p registry.Publisher, set registry.ChangeSet, exitCode bool) error {
	preview, err := p.Preview(ctx, set)
	if err != nil {
		return err
	}
	if err := Print(a, "Plan", preview); err != nil {
		return err
	}
	if exitCode && preview.Changed {
		return app.Exit(app.ExitChanges)
	}
	return nil
}

// Apply previews, asks and applies. Nothing to change is success.
func Apply(ctx context.Context, a *app.App, reg *app.Registry, c Change) error {
	preview, err := reg.Preview(ctx, c.Set)
	if err != nil {
		return err
	}
	expected := preview.Before
	if c.Revision != 0 {
		expected = c.Revision
	}
	if expected != preview.Before {
		return moved(expected, preview.Before)
	}
	if !preview.Changed {
		return Print(a, "Publication", preview)
	}
	if err := confirm(ctx, a, reg, c, preview); err != nil {
		return err
	}
	done, err := reg.Apply(ctx, c.Set, expected)
	if err != nil {
		return err
	}
	return Print(a, "Publication", done)
}

func moved(planned, now uint64) error {
	return fleet.Errorf(fleet.Conflict, "publish.revision_moved", "the plan was made at revision %d, the registry is at %d", planned, now).
		Because("somebody published in between").Advise("aipctl plan -f FILE")
}

// confirm asks at the step that the change's own size and its impact ask for.
func confirm(ctx context.Context, a *app.App, reader registry.Reader, c Change, preview registry.Publication) error {
	level := max(c.Level, levelOf(preview))
	lines := []string{fmt.Sprintf("%s to change at revision %d:", app.Plural(len(preview.Changes), "record"), preview.Before)}
	lines = append(lines, Lines(preview)...)
	if disables(preview) {
		judged, err := Judge(ctx, reader, c.Set)
		if err != nil {
			return err
		}
		level = judged.Level(max(level, app.ConfirmYes))
		lines = append(lines, judged.Lines()...)
	}
	return a.Confirm(level, strings.Join(lines, "\n"), c.Name)
}

func levelOf(p registry.Publication) app.Level {
	if len(p.Changes) > 1 {
		return app.ConfirmYes
	}
	return app.ConfirmNone
}

func disables(p registry.Publication) bool {
	for _, c := range p.Changes {
		for _, f := range c.Fields {
			if c.Op == "update" && f.Path == "enabled" && f.To == "false" {
				return true
			}
		}
	}
	return false
}

// Judge reads the fleet and judges what the disabled records of a set take out of service.
func Judge(ctx context.Context, reader registry.Reader, set registry.ChangeSet) (impact.Impact, error) {
	f, err := ReadFleet(ctx, reader)
	if err != nil {
		return impact.Impact{}, err
	}
	instances := map[fleet.InstanceID]bool{}
	for _, i := range set.Instances {
		instances[i.ID] = !i.Enabled
	}
	if err := ofTypes(ctx, reader, set, instances); err != nil {
		return impact.Impact{}, err
	}
	bindings := map[fleet.BindingKey]bool{}
	for _, b := range set.Bindings {
		bindings[b.BindingKey] = !b.Enabled
	}
	return impact.Of(f,
		func(r registry.ReplicaRecord) bool { return instances[r.Instance] },
		func(b fleet.CapabilityBinding) bool { return bindings[b.BindingKey] }), nil
}

// ofTypes adds the instances of disabled types.
func ofTypes(ctx context.Context, reader registry.Reader, set registry.ChangeSet, lost map[fleet.InstanceID]bool) error {
	disabled := map[fleet.TypeID]bool{}
	for _, t := range set.Types {
		if !t.Enabled {
			disabled[t.ID] = true
		}
	}
	if len(disabled) == 0 {
		return nil
	}
	page, err := ReadAll(ctx, reader, registry.Selection{Noun: registry.Instances})
	if err != nil {
		return err
	}
	for _, i := range page.Instances {
		if disabled[i.Type] {
			lost[i.ID] = true
		}
	}
	return nil
}

// Lines writes the differences, one field to a line.
func Lines(p registry.Publication) []string {
	var lines []string
	for _, c := range p.Changes {
		sign := "~"
		if c.Op == "create" {
			sign = "+"
		}
		lines = append(lines, fmt.Sprintf("  %s %s %s", sign, strings.TrimSuffix(string(c.Noun), "s"), c.ID))
		for _, f := range c.Fields {
			if c.Op == "create" {
				lines = append(lines, fmt.Sprintf("      %s: %s", f.Path, f.To))
				continue
			}
			lines = append(lines, fmt.Sprintf("      %s: %s -> %s", f.Path, f.From, f.To))
		}
	}
	return lines
}

// Print writes a publication or a plan.
func Print(a *app.App, kind string, p registry.Publication) error {
	if p.Changes == nil {
		p.Changes = []registry.Change{}
	}
	head := fmt.Sprintf("revision %d -> %d, %s", p.Before, p.After, app.Plural(len(p.Changes), "record"))
	switch {
	case !p.Changed:
		head = fmt.Sprintf("nothing to change at revision %d", p.Before)
	case kind == "Plan":
		head = fmt.Sprintf("%s to change at revision %d", app.Plural(len(p.Changes), "record"), p.Before)
	}
	return a.Print(app.View{
		Kind: kind, Revision: p.After, Item: p,
		Name: func(any) string { return fmt.Sprintf("revision/%d", p.After) },
		Text: func() app.Page { return app.Page{{Lines: append([]string{head}, Lines(p)...)}} },
	})
}
