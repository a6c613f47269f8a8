package app

import (
	"fmt"
	"strings"
	"time"
)

// glyphs gives each status word its sign. The word always stands beside it;
// colour is extra.
func glyph(word string) (sign, color string) {
	switch word {
	case "ready", "active", "enabled", "completed", "resolved", "applied", "closed", "ok", "run", "pass", "happened":
		return "●", "32"
	case "draining", "drain", "deprecated", "queued", "accepted", "dispatched", "reserved", "half_open", "retryable", "open", "admitted", "warn", "running", "lease_expired":
		return "◐", "33"
	case "offline", "retired", "disabled", "cancelled", "superseded", "did_not_happen", "skip", "not_started":
		return "○", "90"
	case "quarantined", "revoked", "failed", "uncertain", "outcome_unknown", "operator", "unhealthy", "fail", "circuit_open", "unknown":
		return "▲", "31"
	}
	return "", ""
}

// Status writes a status word with its glyph.
func Status(word string) string {
	if sign, _ := glyph(word); sign != "" {
		return sign + " " + word
	}
	return word
}

// Enabled writes a switch as a status.
func Enabled(on bool) string {
	if on {
		return Status("enabled")
	}
	return Status("disabled")
}

// paint colours a cell that starts with a status glyph.
func paint(cell string) string {
	sign, word, ok := strings.Cut(cell, " ")
	if !ok {
		return cell
	}
	first, _, _ := strings.Cut(word, " ")
	if s, color := glyph(first); s == sign && s != "" {
		return "\x1b[" + color + "m" + cell + "\x1b[0m"
	}
	return cell
}

// Since writes how long ago t was, or "" for the zero time.
func (a *App) Since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := a.Now().Sub(t)
	if d < 0 {
		return "in " + Duration(-d)
	}
	return Duration(d) + " ago"
}

// Until writes how far ahead t is.
func (a *App) Until(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := t.Sub(a.Now())
	if d < 0 {
		return "ended " + Duration(-d) + " ago"
	}
	return "in " + Duration(d)
}

// Duration writes a duration with one or two units.
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Stamp writes a time in UTC to the second, for pages that quote it.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Plural writes a number with its noun: 1 record, 2 records.
func Plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
