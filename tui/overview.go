package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// tile is one box of the overview.
type tile struct {
	title  string
	main   string // starts with a glyph when it has a status
	detail string
	extra  string               // in place of a sparkline
	spark  func(sample) float64 // nil: none
	open   string               // the command that Enter runs; "" does nothing
}

// tiles is the overview's content, from what was read.
func (m *Model) tiles() []tile {
	s, d := m.status, m.drain
	rate := "… routes/s"
	if r, ok := m.history.rate(); ok {
		rate = fmt.Sprintf("%.1f routes/s", r)
	}
	return []tile{
		{title: "Replicas", main: readyText(s),
			detail: fmt.Sprintf("%d draining, %d offline", s.Replicas[fleet.ReplicaDraining], s.Replicas[fleet.ReplicaOffline]),
			spark:  func(x sample) float64 { return x.ready }, open: "replicas"},
		{title: "Load", main: loadText(s), detail: alarmed(s.Unhealthy) + " unhealthy", spark: func(x sample) float64 { return x.active }, open: "routes state=reserved"},
		{title: "Routes", main: rate, detail: fmt.Sprintf("%d in all", s.Routes), spark: func(x sample) float64 { return x.rate }, open: "routes"},
		{title: "Uncertain", main: uncertainText(s), detail: fmt.Sprintf("%d open, %d operator", s.Uncertain[fleet.ReconcileOpen], s.Uncertain[fleet.ReconcileOperator]),
			spark: func(x sample) float64 { return x.uncertain }, open: "routes uncertain~op"},
		{title: "Leases", main: warned(s.LeasesEnding) + " end within 10s", detail: m.expiredText(), spark: func(x sample) float64 { return x.ending }, open: "replicas lease<10s"},
		{title: "Circuits", main: alarmed(s.CircuitsOpen) + " open", detail: "of " + many(s.ReplicasDeclared, "replica", "replicas"),
			spark: func(x sample) float64 { return x.circuits }, open: "replicas circuit!=closed"},
		{title: "Drain", main: drainText(d), detail: fmt.Sprintf("%d still reserved", d.Reservations), spark: func(x sample) float64 { return x.toSettle }, open: "replicas drain=yes"},
		{title: "Catalog", main: fmt.Sprintf("revision %d", s.Revision),
			detail: many(s.Instances, "instance", "instances") + " " + many(s.Bindings, "binding", "bindings"), extra: versionsText(s)},
	}
}

func readyText(s registry.Status) string {
	g, n := "●", s.Replicas[fleet.ReplicaReady]
	if n == 0 {
		g = "▲"
	}
	return fmt.Sprintf("%s %d of %d ready", g, n, s.ReplicasDeclared)
}

// alarmed writes a count that should be zero.
func alarmed(n int) string {
	if n > 0 {
		return fmt.Sprintf("▲ %d", n)
	}
	return "● 0"
}

func warned(n int) string {
	if n > 0 {
		return fmt.Sprintf("◐ %d", n)
	}
	return "● 0"
}

func loadText(s registry.Status) string {
	if s.Capacity == 0 {
		return fmt.Sprintf("▲ %d of no capacity", s.Active)
	}
	g := "●"
	if s.Active*10 >= s.Capacity*9 {
		g = "▲"
	}
	return fmt.Sprintf("%s %d of %d (%d%%)", g, s.Active, s.Capacity, s.Active*100/s.Capacity)
}

func uncertainText(s registry.Status) string {
	if n := unresolved(s); n > 0 {
		return fmt.Sprintf("▲ %d, oldest %s", n, span(s.OldestUncertain))
	}
	return fmt.Sprintf("● 0, %d resolved", s.Uncertain[fleet.ReconcileResolved])
}

func drainText(d drain) string {
	if d.Wanted == 0 {
		return "● none"
	}
	g := "◐"
	if d.Drained == d.Wanted {
		g = "●"
	}
	return fmt.Sprintf("%s %d of %d drained", g, d.Drained, d.Wanted)
}

func versionsText(s registry.Status) string {
	total := 0
	for _, n := range s.Versions {
		total += n
	}
	return fmt.Sprintf("%d of %d versions active", s.Versions[fleet.VersionActive], total)
}

// expiredText counts leases that ended and whose replica maintenance has not marked yet.
func (m *Model) expiredText() string {
	n := 0
	for i := range m.replicas.rows {
		l := m.replicas.rows[i].item.Live
		if l.Status != fleet.ReplicaOffline && l.Status != fleet.ReplicaRetired && !l.LeaseExpiresAt.After(m.status.At) {
			n++
		}
	}
	return fmt.Sprintf("%d ended already", n)
}

// Attention is one thing that an operator should look at.
type Attention struct {
	State   string `json:"state"`   // a status word
	Subject string `json:"subject"` // an id, or a count
	What    string `json:"what"`
	Next    string `json:"next"` // the command that shows more
}

// attention lists what is wrong, worst first. It is made of what was read: where
// only the first replicas were, it speaks of those.
func attention(s registry.Status, rows []row[registry.ReplicaRecord], now time.Time) []Attention {
	var all []Attention
	if n := unresolved(s); n > 0 {
		all = append(all, Attention{"uncertain", many(n, "attempt", "attempts"), "without a definite answer, oldest " + span(s.OldestUncertain), "aipctl reconcile list"})
	}
	for i := range rows {
		if a, ok := replicaAttention(rows[i].item, now); ok {
			all = append(all, a)
		}
	}
	slices.SortStableFunc(all, func(a, b Attention) int { return urgency(b) - urgency(a) })
	return all
}

func urgency(a Attention) int {
	_, t := sign(a.State)
	return int(t)
}

func replicaAttention(r *registry.ReplicaRecord, now time.Time) (Attention, bool) {
	l, id := r.Live, r.ID.String()
	a := Attention{Subject: id, Next: "aipctl describe replica " + id}
	left := l.LeaseExpiresAt.Sub(now)
	switch {
	case l.Status == fleet.ReplicaOffline && l.Active > 0:
		a.State, a.What = "stuck", "offline with "+many(int(l.Active), "reservation", "reservations")+" not settled"
	case l.Circuit.State == fleet.CircuitOpen:
		a.State, a.What = "circuit_open", "after "+many(int(l.Circuit.ConsecutiveUnknowns), "unknown", "unknowns")+", may be tried "+until(l.Circuit.OpenUntil, now)
	case l.Status == fleet.ReplicaOffline && l.Intent == fleet.IntentRun && l.LeaseEpoch > 0:
		a.State, a.What = "offline", "wanted to run, last beat "+ago(l.LastBeatAt, now)
	case l.Status == fleet.ReplicaOffline:
		return a, false
	case left <= 0:
		a.State, a.What = "expired", "its lease ended "+span(-left)+" ago"
	case !l.Healthy:
		a.State, a.What = "unhealthy", many(int(l.NotReadyBeats), "beat", "beats")+" not ready"
	case left < 10*time.Second:
		a.State, a.What = "ending", "its lease ends in "+span(left)
	case leaving(r) && l.Active > 0:
		a.State, a.What = "draining", "waits for "+many(int(l.Active), "reservation", "reservations")
	default:
		return a, false
	}
	return a, true
}

// overviewView draws the tiles as boxes where they fit, else as lines, and below
// them what needs attention.
func (m *Model) overviewView(a area) []string {
	if m.feed.okAt.IsZero() {
		return []string{"", "  reading the fleet …"}
	}
	tiles := m.tiles()
	columns := tileColumns(a.w)
	if (len(tiles)+columns-1)/columns*tileHeight > a.h {
		return m.tileLines(a, tiles)
	}
	lines := m.tileBoxes(a, tiles, columns)
	return append(lines, m.attentionLines(a, a.h-len(lines))...)
}

// Sizes of a tile.
const (
	tileHeight = 5
	tileWidth  = 26
)

func tileColumns(w int) int { return max(w/tileWidth, 1) }

func (m *Model) tileBoxes(a area, tiles []tile, columns int) []string {
	w := a.w / columns
	var lines []string
	for first := 0; first < len(tiles); first += columns {
		block := make([]string, tileHeight)
		for i := first; i < min(first+columns, len(tiles)); i++ {
			for n, l := range boxed(a.theme, i == m.tile, tiles[i].title, m.tileBody(a, tiles[i], w-4), w) {
				block[n] += l
			}
		}
		lines = append(lines, block...)
	}
	return lines
}

func (m *Model) tileBody(a area, t tile, w int) []string {
	spark := clip(t.extra, w)
	if t.spark != nil {
		spark = m.history.line(w, t.spark)
	}
	return []string{a.theme.toned(clip(t.main, w)), clip(t.detail, w), paint(a.theme.label, spark)}
}

// tileLines is the overview on a small screen: one line for each tile.
func (m *Model) tileLines(a area, tiles []tile) []string {
	var lines []string
	for i, t := range tiles {
		if len(lines) == a.h {
			break
		}
		text := pointer(i == m.tile, false) + fit(t.title, 10) + " " + t.main
		if room := a.w - cells(text) - 3; room > 8 {
			text += "  " + clip(t.detail, room)
		}
		if i == m.tile {
			text = paint(a.theme.cursor, fit(text, a.w))
		}
		lines = append(lines, clip(text, a.w))
	}
	if room := a.h - len(lines); room > 1 {
		lines = append(lines, m.attentionLines(a, room)...)
	}
	return lines
}

func (m *Model) attentionLines(a area, room int) []string {
	if room < 2 {
		return nil
	}
	all := attention(m.status, m.replicas.rows, a.now)
	if len(all) == 0 {
		return []string{paint(a.theme.title, "  Attention"), "  " + a.theme.toned("● nothing needs attention")}
	}
	lines := []string{paint(a.theme.title, fmt.Sprintf("  Attention (%d)", len(all)))}
	for i, x := range all {
		if len(lines) == room-1 && i < len(all)-1 {
			return append(lines, fmt.Sprintf("  and %d more", len(all)-i))
		}
		mark := status(x.State)
		text := "  " + fit(mark, 14) + " " + x.Subject + " " + x.What
		text = spread(text, x.Next, a.w-1)
		lines = append(lines, strings.Replace(text, mark, a.theme.toned(mark), 1))
	}
	return lines
}
