package app

import (
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// APIVersion is the version of every document that aipctl prints.
const APIVersion = "aipfleet/v1"

// View is the result of a command in every form it can be asked for.
type View struct {
	Kind     string // of the document: "Replicas", "Plan"
	Revision uint64 // catalog revision read at; 0 when it does not apply
	NextPage string // cursor of the page after, "" at the end

	Items []any // a list, even of one; nil when Item is set
	Item  any   // a single thing

	Name  func(item any) string // -o name; defaults to the item's "id" or "name"
	Table func(wide bool) Table // a list for people
	Text  func() Page           // a single thing for people; used when Table is nil
	Note  string                // one line after the table, on stderr
}

// Table is rows of text under a header. Cells are made printable when written.
type Table struct {
	Header []string
	Rows   [][]string
}

// Page is a screenful about one thing.
type Page []Section

// Section is a titled part of a page: fields, then a table, then lines.
type Section struct {
	Title  string
	Fields []Field
	Table  *Table
	Lines  []string
}

// Field is one label and its value.
type Field struct{ Label, Value string }

// Items turns a typed slice into the items of a view.
func Items[T any](list []T) []any {
	items := make([]any, len(list))
	for i, v := range list {
		items[i] = v
	}
	return items
}

// Print writes the view to stdout in the asked format.
func (a *App) Print(v View) error {
	switch format, arg, _ := strings.Cut(a.Output, "="); format {
	case "json":
		return a.printJSON(v)
	case "jsonl":
		return a.printJSONL(v)
	case "yaml":
		return a.printYAML(v)
	case "name":
		return a.printNames(v)
	case "template":
		return a.printTemplate(v, arg)
	}
	return a.printHuman(v)
}

func formats() []string {
	return []string{"table", "wide", "json", "jsonl", "yaml", "name", "template=…"}
}

// machine reports whether the output is for a program.
func (a *App) machine() bool {
	format, _, _ := strings.Cut(a.Output, "=")
	return format == "json" || format == "jsonl" || format == "yaml"
}

// Machine reports whether the result is read by a program: nothing may ask, and
// errors are documents.
func (a *App) Machine() bool { return a.machine() }

func (a *App) checkFlags() error {
	switch format, arg, given := strings.Cut(a.Output, "="); format {
	case "table", "wide", "json", "jsonl", "yaml", "name":
		if given {
			return Usagef("usage.output", "format %s takes no argument", fleet.Printable(format, 40))
		}
	case "template":
		if arg == "" {
			return Usagef("usage.output", "format template needs a template").Advise("-o 'template={{range .items}}{{.id}}{{\"\\n\"}}{{end}}'")
		}
	default:
		wrong := a.Output
		a.Output = "table"
		return Unknown("usage.output", "output format", wrong, formats())
	}
	switch a.Color {
	case "auto", "always", "never":
		return nil
	}
	return Unknown("usage.color", "colour choice", a.Color, []string{"auto", "always", "never"})
}

// scanOutput finds the output format before the flags are parsed, so that an
// error of parsing has the asked shape too.
func scanOutput(args []string, fallback string) string {
	for i, arg := range args {
		switch {
		case arg == "--":
			return fallback
		case (arg == "-o" || arg == "--output") && i+1 < len(args):
			return args[i+1]
		case strings.HasPrefix(arg, "--output="):
			return strings.TrimPrefix(arg, "--output=")
		case strings.HasPrefix(arg, "-o") && len(arg) > 2:
			return strings.TrimPrefix(strings.TrimPrefix(arg, "-o"), "=")
		}
	}
	return fallback
}
