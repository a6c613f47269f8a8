package tui

import (
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/aipfleet/aipfleet/pkg/registry"
)

// MinWidth and MinHeight are the smallest terminal that the dashboard draws on.
const (
	MinWidth  = 60
	MinHeight = 12
)

// tickEvery is how often ages are drawn anew and the feed is looked at.
const tickEvery = 500 * time.Millisecond

// Model is the dashboard. It is a value: Update returns the next one.
type Model struct {
	config Config
	width  int
	height int
	skew   time.Duration // of the registry's clock against ours

	feed    feed
	status  registry.Status
	drain   drain
	history history

	screen   Screen
	tile     int
	replicas table[registry.ReplicaRecord]
	routes   table[routeItem]
	pages    []page // drilled down, the shown one last

	input    input
	notice   string // one line about the last key; gone with the next
	quitting bool
}

// New makes a dashboard that has read nothing yet.
func New(c Config) Model {
	c = c.withDefaults()
	return Model{
		config: c, width: 80, height: 24, screen: c.Screen, feed: feed{interval: c.Interval},
		replicas: newTable("replicas", replicaColumns()), routes: newTable("routes", routeColumns()),
	}
}

type tickMsg struct{}

type copiedMsg struct {
	text string
	err  error
}

func tick() tea.Cmd { return tea.Tick(tickEvery, func(time.Time) tea.Msg { return tickMsg{} }) }

// Init starts the clock; its first beat starts the first reading.
func (m Model) Init() tea.Cmd {
	return tea.Batch(func() tea.Msg { return tickMsg{} }, tea.SetWindowTitle("aipctl dash "+clean(m.config.Context)))
}

// Update is the dashboard's one step.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.step(msg)
	m.settle()
	return m, cmd
}

func (m *Model) step(msg tea.Msg) tea.Cmd {
	switch x := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = x.Width, x.Height
	case tickMsg:
		if m.feed.due(m.config.Now()) {
			return tea.Batch(tick(), m.refresh())
		}
		return tick()
	case reading:
		return m.take(x)
	case copiedMsg:
		m.notice = "copied " + x.text
		if x.err != nil {
			m.notice = "not copied (" + clean(x.err.Error()) + "): " + x.text
		}
	case tea.KeyMsg:
		return m.press(x)
	}
	return nil
}

// settle keeps every cursor on the screen after a step.
func (m *Model) settle() {
	m.replicas.scroll(m.bodyHeight() - headRows)
	m.routes.scroll(m.bodyHeight() - headRows)
	if m.page() != nil {
		m.onPage(func(p *page) { p.settle(m.pageArea()) })
	}
}

// now is the registry's time, as far as we know it.
func (m *Model) now() time.Time { return m.config.Now().Add(m.skew) }

// refresh starts a reading of what the screen needs. While one is under way the
// wish is remembered, and the next one takes it up.
func (m *Model) refresh() tea.Cmd {
	if m.feed.reading {
		m.feed.again = true
		return nil
	}
	m.feed.start(m.config.Now())
	return m.config.read(m.wants())
}

// Refresh is the command that reads what the shown screen needs, for a caller who
// draws one frame.
func (m *Model) Refresh() tea.Cmd { return m.refresh() }

func (m *Model) wants() want {
	var w want
	if p := m.page(); p != nil {
		if !p.frozen {
			w.page = p.target
		}
		return w
	}
	if m.screen == Routes {
		s := registry.Selection{Noun: registry.Routes}
		if m.routes.wide {
			s = routeSelection(m.routes.filter, m.routes.fields())
		}
		w.routes = &s
		return w
	}
	s := registry.Selection{Noun: registry.Replicas}
	if m.replicas.wide && m.screen == Replicas {
		s = replicaSelection(m.replicas.filter, m.replicas.fields())
	}
	w.replicas = &s
	return w
}

// take shows a reading, or remembers why there was none.
func (m *Model) take(r reading) tea.Cmd {
	m.feed.end(r)
	if r.err == nil {
		m.show(r)
	}
	if m.feed.again {
		return m.refresh()
	}
	return nil
}

func (m *Model) show(r reading) {
	m.status = r.status
	m.skew = skewOf(r)
	if r.replicas != nil {
		m.replicas.set(r.replicas, m.now())
		if r.replicas.whole {
			m.drain = drainOf(r.replicas.rows, m.now())
		}
	}
	if r.routes != nil {
		m.routes.set(r.routes, m.now())
	}
	m.history = m.history.add(r.status, m.drain)
	if r.facts != nil {
		pages := append([]page(nil), m.pages...)
		for i := range pages {
			if pages[i].target == r.want.page && !pages[i].frozen {
				pages[i].facts = r.facts
			}
		}
		m.pages = pages
	}
}

// skewOf is how far the registry's clock is from ours; what a read can explain is none.
func skewOf(r reading) time.Duration {
	d := r.status.At.Sub(r.at)
	if d.Abs() <= r.took+500*time.Millisecond {
		return 0
	}
	return d
}

// page is the shown page, or nil on a screen.
func (m *Model) page() *page {
	if len(m.pages) == 0 {
		return nil
	}
	return &m.pages[len(m.pages)-1]
}

// onPage changes the shown page without touching the model that came before.
func (m *Model) onPage(change func(*page)) {
	m.pages = append([]page(nil), m.pages...)
	change(&m.pages[len(m.pages)-1])
}

// pageArea is where a page is drawn.
func (m *Model) pageArea() area {
	return area{w: m.width, h: m.bodyHeight(), now: m.now(), theme: &m.config.Theme}
}

// grid is the shown table, or nil.
func (m *Model) grid() grid {
	if m.page() != nil {
		return nil
	}
	switch m.screen {
	case Replicas:
		return &m.replicas
	case Routes:
		return &m.routes
	}
	return nil
}

// open drills down.
func (m *Model) open(p page) tea.Cmd {
	m.pages = append(m.pages[:len(m.pages):len(m.pages)], p)
	if p.frozen {
		return nil
	}
	return m.refresh()
}

// back leaves a page; on a screen it clears the filter.
func (m *Model) back() tea.Cmd {
	if len(m.pages) > 0 {
		m.pages = m.pages[:len(m.pages)-1]
		return m.refresh()
	}
	if g := m.grid(); g != nil && g.filterText() != "" {
		g.stick(g.key())
		_ = g.setFilter("", m.now()) // no filter is always valid
		return m.refresh()
	}
	return nil
}

// goTo shows a screen.
func (m *Model) goTo(s Screen) tea.Cmd {
	m.screen, m.pages = s, nil
	return m.refresh()
}

// Err is why the last reading failed, or nil.
func (m Model) Err() error { return m.feed.err }
