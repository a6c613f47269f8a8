package tui

import "unicode/utf8"

// tone says how a word feels. A tone is extra: the glyph and the word say it too.
type tone uint8

const (
	toneNone tone = iota
	toneGood
	toneWarn
	toneIdle
	toneBad
)

// sign gives a status word its glyph and tone.
func sign(word string) (string, tone) {
	switch word {
	case "ready", "active", "completed", "closed", "run", "healthy", "live", "drained", "resolved", "eligible", "ok":
		return "●", toneGood
	case "draining", "drain", "deprecated", "reserved", "half_open", "open", "admitted", "lease_expired", "probing", "ending", "paused":
		return "◐", toneWarn
	case "offline", "retired", "cancelled", "disabled", "removed", "idle", "superseded":
		return "○", toneIdle
	case "quarantined", "revoked", "outcome_unknown", "operator", "unhealthy", "circuit_open", "uncertain", "expired", "refused", "stale", "stuck":
		return "▲", toneBad
	}
	return "", toneNone
}

// status writes a status word with its glyph.
func status(word string) string {
	if g, _ := sign(word); g != "" {
		return g + " " + word
	}
	return word
}

// toneOf is the tone of a text that starts with a glyph, or none.
func toneOf(text string) tone {
	switch r, _ := utf8.DecodeRuneInString(text); r {
	case '●':
		return toneGood
	case '◐':
		return toneWarn
	case '○':
		return toneIdle
	case '▲':
		return toneBad
	}
	return toneNone
}
