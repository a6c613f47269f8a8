package tui

import (
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/aipfleet/aipfleet/pkg/registry"
)

// crowded is a model of 10 000 replicas on a screen of 200x60.
func crowded(b *testing.B) Model {
	w := newWorld(b)
	m := New(w.config())
	m.width, m.height, m.screen = 200, 60, Replicas
	now := w.now()
	m.feed.okAt = now
	m.replicas.set(&listing[registry.ReplicaRecord]{rows: rowsOf(replicaColumns(), replicaKey, crowd(10_000)), whole: true}, now)
	m.settle()
	return m
}

// BenchmarkFilter types one filter over 10 000 rows.
func BenchmarkFilter(b *testing.B) {
	m := crowded(b)
	now := m.now()
	for i := 0; b.Loop(); i++ {
		if err := m.replicas.setFilter([]string{"zone-3 status=ready", "tenant~7 active>0"}[i%2], now); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSort sorts 10 000 rows by text and by number in turn.
func BenchmarkSort(b *testing.B) {
	m := crowded(b)
	now := m.now()
	for i := 0; b.Loop(); i++ {
		m.replicas.sortBy([]string{"id", "active"}[i%2], now)
	}
}

// BenchmarkKeyToFrame moves the cursor and draws the frame.
func BenchmarkKeyToFrame(b *testing.B) {
	m := crowded(b)
	m.config.Theme, _ = FindTheme("dark")
	for b.Loop() {
		next, _ := m.Update(tea.KeyMsg{Type: tea.KeyPgDown})
		m = next.(Model)
		if m.View() == "" {
			b.Fatal("nothing is drawn")
		}
	}
}

// BenchmarkReading prepares and takes over a reading of 10 000 rows.
func BenchmarkReading(b *testing.B) {
	m := crowded(b)
	records := crowd(10_000)
	for b.Loop() {
		l := &listing[registry.ReplicaRecord]{rows: rowsOf(replicaColumns(), replicaKey, records), whole: true}
		m.replicas.set(l, time.Unix(2_000_000_000, 0))
	}
}
