package tui

import (
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Report is the overview for programs.
type Report struct {
	Context   string          `json:"context"`
	At        time.Time       `json:"at"`
	Status    registry.Status `json:"status"`
	Drain     drain           `json:"drain"`
	Attention []Attention     `json:"attention"`
	Partial   bool            `json:"partial"` // drain and attention speak of the first replicas only
}

// Overview is what the overview screen says, as values.
func (m Model) Overview() Report {
	all := attention(m.status, m.replicas.rows, m.now())
	if all == nil {
		all = []Attention{}
	}
	return Report{Context: m.config.Context, At: m.status.At, Status: m.status, Drain: m.drain, Attention: all, Partial: m.replicas.cut}
}

// Still reads once and returns the model of one frame of the given size.
func Still(m Model, width, height int) Model {
	m.width, m.height = width, height
	if read := m.refresh(); read != nil {
		next, _ := m.Update(read())
		m = next.(Model)
	}
	return m
}

// Frame draws the model for a file or a pipe: no trailing blanks, one newline at the end.
func (m Model) Frame() string {
	lines := strings.Split(m.View(), "\n")
	for i, l := range lines {
		if ansi.Strip(l) == l {
			lines[i] = strings.TrimRight(l, " ")
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

var _ tea.Model = Model{}
