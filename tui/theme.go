package tui

import (
	"io"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

// Theme is how the dashboard is painted. A theme adds nothing that the text does
// not say: status is always a word and a glyph.
type Theme struct {
	name   string
	tones  [5]lipgloss.Style // by tone
	title  lipgloss.Style    // headings
	label  lipgloss.Style    // labels and hints
	cursor lipgloss.Style    // the chosen row
	badge  lipgloss.Style    // live, and the names of keys
	alarm  lipgloss.Style    // stale, production, errors
	stale  lipgloss.Style    // everything of old data
	frame  lipgloss.Style    // borders
}

// palette names ANSI colours, which every terminal has and its user has chosen.
type palette struct {
	good, warn, idle, bad, title, label, frame string
	bold                                       bool
}

// Themes lists the names of all themes.
func Themes() []string { return []string{"dark", "light", "high-contrast", "mono", "plain"} }

// FindTheme returns a theme by name. "mono" uses bold, faint and reverse but no
// colour; "plain" writes no escape sequence at all.
func FindTheme(name string) (Theme, bool) {
	switch name {
	case "dark":
		return newTheme(name, termenv.ANSI, palette{good: "10", warn: "11", idle: "7", bad: "9", title: "14", label: "7", frame: "8"}), true
	case "light":
		return newTheme(name, termenv.ANSI, palette{good: "2", warn: "5", idle: "8", bad: "1", title: "4", label: "8", frame: "8"}), true
	case "high-contrast":
		return newTheme(name, termenv.ANSI, palette{good: "10", warn: "11", idle: "15", bad: "9", title: "15", label: "15", frame: "15", bold: true}), true
	case "mono":
		return newTheme(name, termenv.ANSI, palette{}), true
	case "plain":
		return newTheme(name, termenv.Ascii, palette{}), true
	}
	return Theme{}, false
}

// newTheme builds styles on a renderer of its own, which asks no terminal anything.
func newTheme(name string, profile termenv.Profile, p palette) Theme {
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(profile)
	r.SetHasDarkBackground(name != "light")
	style := func(color string) lipgloss.Style {
		s := r.NewStyle().Bold(p.bold)
		if color != "" {
			s = s.Foreground(lipgloss.Color(color))
		}
		return s
	}
	t := Theme{
		name: name, title: style(p.title).Bold(true), label: style(p.label), frame: style(p.frame),
		cursor: r.NewStyle().Reverse(true), badge: style(p.good).Bold(true), alarm: style(p.bad).Bold(true).Reverse(true),
		stale: r.NewStyle().Faint(true),
	}
	t.tones = [5]lipgloss.Style{style(""), style(p.good), style(p.warn), style(p.idle), style(p.bad).Bold(true)}
	return t
}

// paint renders text in a style; empty text stays empty.
func paint(s lipgloss.Style, text string) string {
	if text == "" {
		return ""
	}
	return s.Render(text)
}

// toned paints text that starts with a status glyph.
func (t Theme) toned(text string) string {
	if n := toneOf(text); n != toneNone {
		return paint(t.tones[n], text)
	}
	return text
}
