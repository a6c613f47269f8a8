package tui

import (
	"strings"
	"unicode"

	tea "github.com/charmbracelet/bubbletea"
)

// inputKind is what is being typed at the bottom.
type inputKind uint8

const (
	noInput inputKind = iota
	filterInput
	commandInput
)

// input is the line being typed. The filter acts while it is typed; Esc brings the
// one before back.
type input struct {
	kind   inputKind
	text   string
	before string
	held   string // the object that the cursor was on
	wrong  string // why the text is not accepted
}

// maxInput bounds what can be typed, in bytes.
const maxInput = 512

func (m *Model) edit(k tea.KeyMsg) tea.Cmd {
	switch k.Type {
	case tea.KeyEsc:
		return m.abandon()
	case tea.KeyEnter:
		return m.accept()
	case tea.KeyTab:
		m.input.text = m.completed()
	case tea.KeyBackspace:
		if m.input.text == "" {
			return m.abandon()
		}
		runes := []rune(m.input.text)
		m.input.text = string(runes[:len(runes)-1])
	case tea.KeyCtrlU:
		m.input.text = ""
	case tea.KeyCtrlW:
		m.input.text = withoutLastWord(m.input.text)
	case tea.KeyRunes, tea.KeySpace:
		m.input.text = typed(m.input.text, k.Runes)
	default:
		return nil
	}
	m.try()
	return nil
}

// typed appends what was typed or pasted, without control characters.
func typed(text string, runes []rune) string {
	for _, r := range runes {
		if unicode.IsPrint(r) && len(text) < maxInput {
			text += string(r)
		}
	}
	return text
}

func withoutLastWord(s string) string {
	s = strings.TrimRight(s, " ")
	return s[:strings.LastIndexByte(s, ' ')+1]
}

// try lets the filter act while it is typed. What does not parse yet leaves the rows alone.
func (m *Model) try() {
	m.input.wrong = ""
	if g := m.grid(); g != nil && m.input.kind == filterInput {
		if err := g.tryFilter(m.input.text, m.now()); err != nil {
			m.input.wrong = err.Error()
		}
	}
}

func (m *Model) abandon() tea.Cmd {
	was := m.input
	m.input = input{}
	if g := m.grid(); g != nil && was.kind == filterInput {
		g.stick(was.held)
		_ = g.setFilter(was.before, m.now()) // it was accepted before
	}
	return nil
}

func (m *Model) accept() tea.Cmd {
	was := m.input
	if was.kind == commandInput {
		m.input = input{}
		return m.run(was.text)
	}
	if was.wrong != "" {
		return nil
	}
	m.input = input{}
	if g := m.grid(); g != nil {
		_ = g.setFilter(was.text, m.now()) // it parsed while it was typed
	}
	return m.refresh()
}

// completed is the input with its last word completed as far as it is clear.
func (m *Model) completed() string {
	options := m.options()
	if len(options) == 0 {
		return m.input.text
	}
	head := m.input.text[:strings.LastIndexByte(m.input.text, ' ')+1]
	return head + shared(options)
}

// options is what the last word may become.
func (m *Model) options() []string {
	text := m.input.text
	start := strings.LastIndexByte(text, ' ') + 1
	word := text[start:]
	var all []string
	switch {
	case m.input.kind == filterInput && m.grid() != nil:
		all = filterWords(m.grid().fields())
	case start == 0:
		all = commandNames()
	default:
		all = m.arguments(strings.Fields(text)[0])
	}
	var fit []string
	for _, o := range all {
		if strings.HasPrefix(o, word) && o != word {
			fit = append(fit, o)
		}
	}
	return fit
}

// shared is the longest beginning of all options.
func shared(options []string) string {
	prefix := options[0]
	for _, o := range options[1:] {
		for !strings.HasPrefix(o, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix
}

// filterWords completes field names and the values that are words of the fleet.
func filterWords(fields []string) []string {
	values := map[string][]string{
		"status": {"ready", "draining", "offline", "retired"}, "intent": {"run", "drain"}, "health": {"healthy", "unhealthy"},
		"circuit": {"closed", "circuit_open", "half_open"}, "drain": {"yes", "no"},
		"state":     {"reserved", "completed", "outcome_unknown", "cancelled", "lease_expired"},
		"uncertain": {"open", "operator", "completed", "not_started", "happened", "did_not_happen"},
	}
	var all []string
	for _, f := range fields {
		if len(values[f]) == 0 {
			all = append(all, f+"=")
		}
		for _, v := range values[f] {
			all = append(all, f+"="+v)
		}
	}
	return all
}
