package admission

import (
	"strconv"
	"strings"
)

// severity orders how bad a finding is.
type severity int

const (
	severityUnknown severity = iota - 1
	severityNone
	severityLow
	severityMedium
	severityHigh
	severityCritical
)

// String is the word for it.
func (s severity) String() string {
	switch s {
	case severityNone:
		return "none"
	case severityLow:
		return "low"
	case severityMedium:
		return "medium"
	case severityHigh:
		return "high"
	case severityCritical:
		return "critical"
	}
	return "unknown"
}

// parseSeverity reads a word of any scanner, or a CVSS base score by the bands of
// CVSS 3. A CVSS vector is not a score: its severity is unknown.
func parseSeverity(s string) severity {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "none":
		return severityNone
	case "negligible", "low", "minor":
		return severityLow
	case "medium", "moderate":
		return severityMedium
	case "high", "important", "major":
		return severityHigh
	case "critical":
		return severityCritical
	}
	score, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	switch {
	case err != nil || score < 0 || score > 10:
		return severityUnknown
	case score == 0:
		return severityNone
	case score < 4:
		return severityLow
	case score < 7:
		return severityMedium
	case score < 9:
		return severityHigh
	}
	return severityCritical
}
