package app

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// printHuman writes a table or a page.
func (a *App) printHuman(v View) error {
	var text string
	switch {
	case v.Table != nil:
		text = a.renderTable(v.Table(a.Output == "wide"))
	case v.Text != nil:
		text = a.renderPage(v.Text())
	default:
		return a.printNames(v)
	}
	if err := a.write([]byte(text)); err != nil {
		return err
	}
	if v.NextPage != "" {
		a.Progressf("more: --page %s", v.NextPage)
	}
	if v.Note != "" {
		a.Progressf("%s", v.Note)
	}
	return nil
}

const maxCell = 4096

// renderTable lays a table out, or writes blocks of label and value for
// accessible output. An empty table is its header.
func (a *App) renderTable(t Table) string {
	t = t.printable()
	if a.Accessible() {
		return t.blocks()
	}
	if a.colors() {
		t.colour()
	}
	var b bytes.Buffer
	if err := layOut(&b, t); err != nil {
		return t.blocks()
	}
	return a.fit(b.String())
}

func layOut(b *bytes.Buffer, t Table) error {
	plain := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment:  tw.CellAlignment{Global: tw.AlignLeft},
		Padding:    tw.CellPadding{Global: tw.Padding{Right: "  ", Overwrite: true}},
	}
	table := tablewriter.NewTable(b,
		tablewriter.WithConfig(tablewriter.Config{
			Header: plain, Row: plain,
			Behavior: tw.Behavior{AutoHide: tw.Off, TrimSpace: tw.Off},
		}),
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone,
			Symbols: tw.NewSymbols(tw.StyleNone),
			Settings: tw.Settings{
				Lines:      tw.LinesNone,
				Separators: tw.SeparatorsNone,
			},
		})))
	table.Header(t.Header)
	if err := table.Bulk(t.Rows); err != nil {
		return err
	}
	return table.Render()
}

// fit trims the lines, and cuts them to the width of a terminal; without a
// terminal nothing is cut.
func (a *App) fit(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, " ")
		if a.OutTTY && a.Width > 1 && !strings.Contains(line, "\x1b") && utf8.RuneCountInString(line) > a.Width {
			line = string([]rune(line)[:a.Width-1]) + "…"
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

func (t Table) printable() Table {
	out := Table{Header: t.Header, Rows: make([][]string, len(t.Rows))}
	for i, row := range t.Rows {
		out.Rows[i] = make([]string, len(row))
		for j, cell := range row {
			out.Rows[i][j] = fleet.Printable(cell, maxCell)
			if cell == "" {
				out.Rows[i][j] = "-"
			}
		}
	}
	return out
}

func (t Table) blocks() string {
	var b strings.Builder
	for i, row := range t.Rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		for j, cell := range row {
			b.WriteString(strings.ToLower(t.Header[j]) + ": " + cell + "\n")
		}
	}
	return b.String()
}

func (t Table) colour() {
	for _, row := range t.Rows {
		for j, cell := range row {
			row[j] = paint(cell)
		}
	}
}

// renderPage writes sections with aligned labels.
func (a *App) renderPage(p Page) string {
	var b strings.Builder
	for i, s := range p {
		if i > 0 {
			b.WriteByte('\n')
		}
		if s.Title != "" {
			b.WriteString(fleet.Printable(s.Title, maxCell) + "\n")
		}
		a.renderFields(&b, s)
		if s.Table != nil {
			b.WriteString(indent(a.renderTable(*s.Table), s.Title != ""))
		}
		for _, line := range s.Lines {
			b.WriteString(indent(fleet.Printable(line, maxLine)+"\n", s.Title != ""))
		}
	}
	return b.String()
}

func (a *App) renderFields(b *strings.Builder, s Section) {
	width := 0
	for _, f := range s.Fields {
		width = max(width, utf8.RuneCountInString(f.Label)+1)
	}
	for _, f := range s.Fields {
		value := fleet.Printable(f.Value, maxCell)
		if value == "" {
			value = "-"
		}
		label := f.Label + ":"
		if a.Accessible() {
			b.WriteString(label + " " + value + "\n")
			continue
		}
		if a.colors() {
			value = paint(value)
		}
		pad := strings.Repeat(" ", width-utf8.RuneCountInString(label)+2)
		b.WriteString(indent(label+pad+value+"\n", s.Title != ""))
	}
}

func indent(text string, deeper bool) string {
	if !deeper || text == "" {
		return text
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return "  " + strings.Join(lines, "\n  ") + "\n"
}
