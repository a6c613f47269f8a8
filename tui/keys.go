package tui

import (
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
)

// press is what a key does. Keys never wait for the registry.
func (m *Model) press(k tea.KeyMsg) tea.Cmd {
	if k.Type == tea.KeyCtrlC {
		return m.quit()
	}
	if m.input.kind != noInput {
		return m.edit(k)
	}
	if k.Type == tea.KeyRunes && len(k.Runes) > 1 {
		return m.pressEach(k)
	}
	m.notice = ""
	if cmd, ok := m.global(k.String()); ok {
		return cmd
	}
	switch {
	case m.page() != nil:
		return m.pageKey(k.String())
	case m.grid() != nil:
		return m.tableKey(m.grid(), k.String())
	}
	return m.overviewKey(k.String())
}

// pressEach takes keys that came in one piece one by one: a slow line delivers them
// so. What was pasted where nothing is typed does nothing.
func (m *Model) pressEach(k tea.KeyMsg) tea.Cmd {
	if k.Paste {
		m.notice = "pasted text goes into / or :"
		return nil
	}
	var all []tea.Cmd
	for _, r := range k.Runes {
		all = append(all, m.press(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}, Alt: k.Alt}))
	}
	return tea.Batch(all...)
}

func (m *Model) quit() tea.Cmd {
	m.quitting = true
	return tea.Quit
}

// global is the keys that mean the same everywhere.
func (m *Model) global(key string) (cmd tea.Cmd, ok bool) {
	switch key {
	case "q":
		return m.quit(), true
	case "ctrl+z":
		return tea.Suspend, true
	case "ctrl+l":
		return tea.ClearScreen, true
	case "1", "2", "4":
		return m.goTo(Screen(key[0] - '0')), true
	case "3", "5", "6", "7", "8", "9", "0":
		m.notice = elsewhere(key)
	case "esc", "backspace":
		return m.back(), true
	case ":":
		m.input = input{kind: commandInput}
	case "?":
		if p := m.page(); p != nil && p.kind == helpPage {
			return m.back(), true
		}
		return m.open(page{target: target{kind: helpPage}, facts: helpFacts{}, frozen: true}), true
	case "p":
		return m.pause(), true
	case "r":
		return m.refresh(), true
	case "x":
		m.notice = "read-only: this version changes nothing; aipctl drain, bind, apply do"
	default:
		return nil, false
	}
	return nil, true
}

// pause stops reading, so that what is seen stands still; again goes on.
func (m *Model) pause() tea.Cmd {
	m.feed.paused = !m.feed.paused
	if m.feed.paused {
		m.notice = "paused: what you see stands still; p goes on"
		return nil
	}
	return m.refresh()
}

// far is further than any list is long.
const far = 1 << 30

// stride is how far a key moves.
func (m *Model) stride(key string) (by int, ok bool) {
	switch key {
	case "up", "k":
		return -1, true
	case "down", "j":
		return 1, true
	case "pgup", "ctrl+b":
		return -max(m.bodyHeight()-headRows-1, 1), true
	case "pgdown", "ctrl+f":
		return max(m.bodyHeight()-headRows-1, 1), true
	case "home", "g":
		return -far, true
	case "end", "G":
		return far, true
	}
	return 0, false
}

func (m *Model) tableKey(g grid, key string) tea.Cmd {
	if by, ok := m.stride(key); ok {
		g.move(by)
		return nil
	}
	switch key {
	case "enter", "d":
		return m.openRow(g)
	case "/":
		m.input = input{kind: filterInput, text: g.filterText(), before: g.filterText(), held: g.held()}
	case "s":
		g.cycleSort(m.now(), m.width)
	case "S":
		g.reverse(m.now())
	case " ":
		g.mark()
	case "w":
		g.stick(g.key())
		return m.why(g.key())
	case "y":
		if g.item() != nil {
			g.stick(g.key())
			return m.open(page{target: target{jsonPage, g.key()}, facts: newJSON(g.item(), commandOf(g.item())), frozen: true})
		}
	case "c":
		return m.copyRows(g)
	case "C":
		return m.copy(commandOf(g.item()))
	default:
		m.notice = "no such key here; ? shows the keys"
	}
	return nil
}

func (m *Model) openRow(g grid) tea.Cmd {
	switch {
	case g.key() == "":
		return nil
	case m.screen == Routes:
		g.stick(g.key())
		return m.open(page{target: target{routePage, g.key()}})
	}
	g.stick(g.key())
	return m.open(page{target: target{replicaPage, g.key()}})
}

// why opens the explanation of an action.
func (m *Model) why(id string) tea.Cmd {
	if _, ok := parseAction(id); !ok {
		m.notice = "why asks about an action: choose a route"
		return nil
	}
	return m.open(page{target: target{explainPage, id}})
}

// copyRows copies the marked ids, or that of the chosen row.
func (m *Model) copyRows(g grid) tea.Cmd {
	if ids, _ := g.marked(); len(ids) > 0 {
		return m.copy(strings.Join(ids, "\n"))
	}
	return m.copy(g.key())
}

// copy hands text to the clipboard, if there is one, and shows it in any case.
func (m *Model) copy(text string) tea.Cmd {
	if text == "" {
		m.notice = "there is nothing to copy here"
		return nil
	}
	shown := clean(strings.ReplaceAll(text, "\n", " "))
	if n := strings.Count(text, "\n"); n > 0 {
		shown = fmt.Sprintf("%d ids", n+1)
	}
	if m.config.Copy == nil {
		m.notice = shown
		return nil
	}
	put := m.config.Copy
	return func() tea.Msg { return copiedMsg{shown, put(text)} }
}

func (m *Model) pageKey(key string) tea.Cmd {
	p := m.page()
	if by, ok := m.stride(key); ok {
		m.onPage(func(p *page) { p.move(by, m.pageArea()) })
		return nil
	}
	under := p.under(m.pageArea())
	switch key {
	case "enter", "d":
		if under.open.kind != noPage && under.open != p.target {
			return m.open(page{target: under.open})
		}
		m.notice = "there is nothing to open on this line"
	case "w":
		return m.pageWhy(p, under)
	case "y":
		if p.facts != nil && p.kind != jsonPage && p.facts.object() != nil {
			return m.open(page{target: target{jsonPage, p.id}, facts: newJSON(p.facts.object(), p.facts.command()), frozen: true})
		}
	case "c":
		if under.value != "" {
			return m.copy(under.value)
		}
		return m.copy(p.id)
	case "C":
		if p.facts != nil {
			return m.copy(p.facts.command())
		}
	case "/", "s", "S", " ":
		m.notice = "that is for lists: Esc goes back"
	default:
		m.notice = "no such key here; ? shows the keys"
	}
	return nil
}

// pageWhy asks about the page's own action, or the one on the line.
func (m *Model) pageWhy(p *page, under line) tea.Cmd {
	switch {
	case p.kind == routePage:
		return m.why(p.id)
	case under.open.kind == routePage:
		return m.why(under.open.id)
	}
	m.notice = "why asks about an action: choose a route"
	return nil
}

func (m *Model) overviewKey(key string) tea.Cmd {
	n, columns := len(m.tiles()), tileColumns(m.width)
	if (n+columns-1)/columns*tileHeight > m.bodyHeight() {
		columns = 1
	}
	switch key {
	case "left", "h", "shift+tab":
		m.tile = max(m.tile-1, 0)
	case "right", "l", "tab":
		m.tile = min(m.tile+1, n-1)
	case "up", "k":
		if m.tile >= columns {
			m.tile -= columns
		}
	case "down", "j":
		m.tile = min(m.tile+columns, n-1)
	case "enter", "d":
		if open := m.tiles()[m.tile].open; open != "" {
			return m.run(open)
		}
		m.notice = "there is no screen behind this tile in this version"
	case "y":
		return m.open(page{target: target{jsonPage, "overview"}, facts: newJSON(m.Overview(), "aipctl dash --once -o json"), frozen: true})
	case "C":
		return m.copy("aipctl dash --once -o json")
	case "/", "s", "S", " ":
		m.notice = "that is for lists: 2 or 4 opens one"
	default:
		m.notice = "no such key here; ? shows the keys"
	}
	return nil
}
