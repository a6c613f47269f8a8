// Package describe is aipctl describe: one record on one screen, with what it
// belongs to, what happened to it last, and the commands likely to come next.
//
// It answers "what about this one?". It reads only.
package describe

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/cmd/aipctl/get"
	"github.com/aipfleet/aipfleet/cmd/aipctl/noun"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Options is one describe.
type Options struct {
	App  *app.App
	Noun string
	ID   string
}

// Command makes aipctl describe.
func Command(a *app.App) *cobra.Command {
	o := &Options{App: a}
	return &cobra.Command{
		Use:               "describe NOUN ID",
		Short:             "Show one record with related records and last events",
		GroupID:           app.GroupLook,
		Example:           "  aipctl describe replica crepl_desk_a1",
		Args:              app.MinArgs(2, "a noun and an id"),
		ValidArgsFunction: get.CompleteNounAndIDs(a, noun.Plurals()),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Noun, o.ID = args[0], strings.Join(args[1:], " ")
			return o.Run(cmd.Context())
		},
	}
}

// Description is what describe prints in the machine formats.
type Description struct {
	Noun    string           `json:"noun"`
	ID      string           `json:"id"`
	Record  any              `json:"record"`
	Related map[string][]any `json:"related"`
	Events  []registry.Event `json:"events"`
	Next    []string         `json:"next"`
	related []related        // in order, for people
	fields  []app.Field      // of the record
}

type related struct {
	noun    noun.Noun
	records []noun.Record
}

// Run reads and prints.
func (o *Options) Run(ctx context.Context) error {
	n, err := noun.Find(o.Noun)
	if err != nil {
		return err
	}
	reg, err := o.App.OpenRegistry(ctx, app.ReadOnly)
	if err != nil {
		return err
	}
	defer reg.Close()
	page, record, err := find(ctx, reg, n, o.ID)
	if err != nil {
		return err
	}
	d := Description{Noun: n.Single, ID: n.Name(record), Record: record.Item, Related: map[string][]any{}, Events: []registry.Event{}}
	for _, c := range n.Columns {
		d.fields = append(d.fields, app.Field{Label: strings.ReplaceAll(c.Name, "-", " "), Value: record.Cell(o.App, c)})
	}
	if err := o.relate(ctx, reg, record, &d); err != nil {
		return err
	}
	if d.Events, err = lastEvents(ctx, reg, d.ID); err != nil {
		return err
	}
	d.Next = next(record, d.ID)
	return o.App.Print(app.View{Kind: "Description", Revision: page.Revision, Item: d, Text: func() app.Page { return o.page(d) },
		Name: func(any) string { return d.ID }})
}

// find reads the one record. Bindings are found by tenant, capability and instance.
func find(ctx context.Context, reader registry.Reader, n noun.Noun, id string) (registry.Records, noun.Record, error) {
	selection := registry.Selection{IDs: []string{id}, Limit: registry.MaxListItems}
	all := false
	if n.Registry() == registry.Bindings {
		selection.IDs, all = nil, true
	}
	page, records, err := n.List(ctx, reader, selection, all)
	if err != nil {
		return page, noun.Record{}, err
	}
	for _, r := range records {
		if name := n.Name(r); name == id || strings.HasPrefix(name, id+"/") || name == strings.ReplaceAll(id, "|", " ") {
			return page, r, nil
		}
	}
	if len(records) == 1 && !all {
		return page, records[0], nil
	}
	return page, noun.Record{}, get.NotFound(ctx, reader, n, []string{id})
}

const shownEvents = 10

// lastEvents returns the newest events about a subject.
func lastEvents(ctx context.Context, reader registry.Reader, subject string) ([]registry.Event, error) {
	page, err := reader.List(ctx, registry.Selection{Noun: registry.Events, Limit: registry.MaxListItems})
	if err != nil {
		return nil, err
	}
	found := []registry.Event{}
	for _, e := range page.Events {
		if e.Subject == subject && len(found) < shownEvents {
			found = append(found, e)
		}
	}
	return found, nil
}

func (o *Options) page(d Description) app.Page {
	page := app.Page{{Title: strings.ToUpper(d.Noun[:1]) + d.Noun[1:] + " " + d.ID, Fields: d.fields}}
	page = append(page, decision(o.App, d.Record)...)
	for _, r := range d.related {
		columns, err := r.noun.Choose(nil, false)
		if err != nil || len(r.records) == 0 {
			continue
		}
		t := r.noun.Table(o.App, r.records, columns)
		page = append(page, app.Section{Title: strings.ToUpper(r.noun.Plural[:1]) + r.noun.Plural[1:], Table: &t})
	}
	if len(d.Events) > 0 {
		n, _ := noun.Find("events")
		if records, err := noun.Wrap(app.Items(d.Events)); err == nil {
			t := n.Table(o.App, records, n.Columns[:7])
			page = append(page, app.Section{Title: "Last events", Table: &t})
		}
	}
	if len(d.Next) > 0 {
		page = append(page, app.Section{Title: "Next", Lines: d.Next})
	}
	return page
}
