package tui

import (
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// command is one word of the command line.
type command struct {
	name, args, about string
	run               func(m *Model, rest string) tea.Cmd
}

// commands is the command line's grammar: a screen with a filter, an object by id,
// or a setting.
func commands() []command {
	screen := func(s Screen) func(*Model, string) tea.Cmd {
		return func(m *Model, rest string) tea.Cmd { return m.goFiltered(s, rest) }
	}
	return []command{
		{"help", "", "keys and commands", func(m *Model, _ string) tea.Cmd { cmd, _ := m.global("?"); return cmd }},
		{"overview", "", "the whole fleet", screen(Overview)},
		{"pause", "", "stop or go on reading", func(m *Model, _ string) tea.Cmd { return m.pause() }},
		{"quit", "", "leave", func(m *Model, _ string) tea.Cmd { return m.quit() }},
		{"replica", "ID", "one replica", openByID(replicaPage)},
		{"replicas", "[filter]", "all replicas, or those that match", screen(Replicas)},
		{"route", "ACTION", "the route of an action", openByID(routePage)},
		{"routes", "[filter]", "the newest routes, or those that match", screen(Routes)},
		{"sort", "FIELD", "sort the list by a field", sortBy},
		{"theme", "NAME", strings.Join(Themes(), ", "), setTheme},
		{"why", "ACTION", "what the router would decide for an action", openByID(explainPage)},
	}
}

func commandNames() []string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return names
}

// arguments completes what follows a command.
func (m *Model) arguments(name string) []string {
	switch name {
	case "replicas":
		return filterWords(m.replicas.fields())
	case "routes":
		return filterWords(m.routes.fields())
	case "theme":
		return Themes()
	case "sort":
		if g := m.grid(); g != nil {
			return g.fields()
		}
	case "replica":
		return keysOf(m.replicas.rows)
	case "route", "why":
		return keysOf(m.routes.rows)
	}
	return nil
}

func keysOf[T any](rows []row[T]) []string {
	keys := make([]string, len(rows))
	for i := range rows {
		keys[i] = rows[i].key
	}
	return keys
}

// run does what a command line says, or says why not.
func (m *Model) run(text string) tea.Cmd {
	name, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	if name == "" {
		return nil
	}
	all := commands()
	if i := slices.IndexFunc(all, func(c command) bool { return c.name == name || name == "q" && c.name == "quit" }); i >= 0 {
		return all[i].run(m, strings.TrimSpace(rest))
	}
	m.notice = "no command " + clean(name) + "; commands: " + strings.Join(commandNames(), " ")
	for _, c := range all {
		if len(name) > 1 && strings.HasPrefix(c.name, name[:2]) {
			m.notice = "no command " + clean(name) + "; did you mean :" + c.name + "?"
			break
		}
	}
	return nil
}

// goFiltered shows a screen. Without a filter the screen keeps the one it has.
func (m *Model) goFiltered(s Screen, filter string) tea.Cmd {
	m.screen, m.pages = s, nil
	if g := m.grid(); g != nil && filter != "" {
		if err := g.setFilter(filter, m.now()); err != nil {
			m.notice = err.Error()
		}
	}
	return m.refresh()
}

func openByID(kind pageKind) func(*Model, string) tea.Cmd {
	return func(m *Model, id string) tea.Cmd {
		var err error
		if kind == replicaPage {
			_, err = fleet.ParseReplicaID(id)
		} else {
			_, err = fleet.ParseActionID(id)
		}
		if err != nil {
			m.notice = clean(err.Error())
			return nil
		}
		return m.open(page{target: target{kind, id}})
	}
}

func sortBy(m *Model, field string) tea.Cmd {
	g := m.grid()
	if g == nil {
		m.notice = "there is no list here"
	} else if !g.sortBy(field, m.now()) {
		m.notice = "no field " + clean(field) + "; fields: " + strings.Join(g.fields(), " ")
	}
	return nil
}

func setTheme(m *Model, name string) tea.Cmd {
	t, ok := FindTheme(name)
	if !ok {
		m.notice = "no theme " + clean(name) + "; themes: " + strings.Join(Themes(), " ")
		return nil
	}
	m.config.Theme = t
	return nil
}
