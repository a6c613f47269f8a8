package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// maxText bounds one text of a record on the screen, in bytes.
const maxText = 2048

// clean makes text of a record safe to show. Plain ASCII is.
func clean(s string) string {
	if len(s) <= maxText && plain(s) {
		return s
	}
	return fleet.Printable(s, maxText)
}

// plain reports whether s is printable ASCII: as many cells as bytes, nothing hidden.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// cells is the width of s on a terminal. Plain ASCII, the usual case, is counted
// without looking at graphemes.
func cells(s string) int {
	if plain(s) {
		return len(s)
	}
	return ansi.StringWidth(s)
}

// clip cuts s to at most w cells and marks the cut.
func clip(s string, w int) string {
	if w <= 0 {
		return ""
	}
	if cells(s) <= w {
		return s
	}
	return ansi.Truncate(s, w, "…")
}

// clipMiddle cuts s to at most w cells and keeps both ends: identities often differ
// only in the last characters.
func clipMiddle(s string, w int) string {
	n := cells(s)
	if n <= w || w < 8 {
		return clip(s, w)
	}
	tail := (w - 1) / 2
	return ansi.Truncate(s, w-1-tail, "") + "…" + ansi.TruncateLeft(s, n-tail, "")
}

// fit makes s exactly w cells wide.
func fit(s string, w int) string {
	s = clip(s, w)
	if n := cells(s); n < w {
		s += strings.Repeat(" ", w-n)
	}
	return s
}

// fitRight makes s exactly w cells wide, pushed to the right.
func fitRight(s string, w int) string {
	s = clip(s, w)
	if n := cells(s); n < w {
		s = strings.Repeat(" ", w-n) + s
	}
	return s
}

// spread puts left and right at the ends of w cells; right gives way first.
func spread(left, right string, w int) string {
	gap := w - cells(left) - cells(right)
	if right == "" || gap < 1 {
		return clip(left, w)
	}
	return left + strings.Repeat(" ", gap) + right
}

// wrap breaks text into lines of at most w cells.
func wrap(s string, w int) []string {
	if w < 1 {
		return nil
	}
	return strings.Split(ansi.Wrap(s, w, ""), "\n")
}

// span writes a duration with one or two units.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", max(d, 0).Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// since writes how long ago t was.
func since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	switch d := now.Sub(t); {
	case d >= time.Second:
		return span(d)
	case d >= 0:
		return "0s"
	}
	return "in " + span(t.Sub(now))
}

// until writes how far ahead t is.
func until(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	if d := t.Sub(now); d > 0 {
		return "in " + span(d)
	}
	return "ended " + span(now.Sub(t))
}

// age writes the age of data to a tenth of a second while it is young.
func age(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", max(d, 0).Seconds())
	}
	return span(d)
}

// many writes a count with its noun.
func many(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// aligned writes rows as columns that are as wide as their widest cell.
func aligned(rows [][]string) []string {
	var widths []int
	for _, r := range rows {
		for i, c := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], cells(c))
		}
	}
	lines := make([]string, len(rows))
	for n, r := range rows {
		var b strings.Builder
		for i, c := range r {
			b.WriteString(fit(c, widths[i]) + "  ")
		}
		lines[n] = strings.TrimRight(b.String(), " ")
	}
	return lines
}
