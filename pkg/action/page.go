package action

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Place is a position in a list: after this record, newest first. It holds
// nothing that its reader may not know, and is not a credential.
type Place struct {
	At time.Time
	ID fleet.ActionID
}

// PlaceOf is the position of a record.
func PlaceOf(r Record) Place { return Place{At: r.CreatedAt, ID: r.ID} }

// String is what ParsePlace reads: microseconds and the id.
func (p Place) String() string { return strconv.FormatInt(p.At.UnixMicro(), 36) + "." + p.ID.String() }

// ParsePlace reads a position; "" is the zero one, the beginning.
func ParsePlace(text string) (Place, error) {
	if text == "" {
		return Place{}, nil
	}
	refused := fleet.Invalidf("action.cursor", "the page position is not valid").Advise("list again from the beginning")
	at, id, found := strings.Cut(text, ".")
	if !found {
		return Place{}, refused
	}
	micros, err := strconv.ParseInt(at, 36, 64)
	if err != nil {
		return Place{}, refused
	}
	parsed, err := fleet.ParseActionID(id)
	if err != nil {
		return Place{}, refused
	}
	return Place{At: time.UnixMicro(micros).UTC(), ID: parsed}, nil
}

// Before reports whether the record comes after this place in a list, newest first.
func (p Place) Before(r Record) bool {
	at := time.UnixMicro(r.CreatedAt.UnixMicro())
	if !at.Equal(p.At) {
		return at.Before(p.At)
	}
	return r.ID.String() < p.ID.String()
}

// Matches reports whether the selection picks the record, its place aside.
func (s Selection) Matches(r Record) bool {
	return (s.Tenant.IsZero() || r.Tenant == s.Tenant) && (len(s.States) == 0 || slices.Contains(s.States, r.State)) &&
		(s.Owner == "" || r.Owner == s.Owner && r.Orphaned())
}

// NewPage makes a page of at most limit records out of a sorted list that has one
// more than the page when there is a next one. Inputs and results are left out.
func NewPage(sorted []Record, limit int) Page {
	page := Page{}
	if len(sorted) > limit {
		sorted = sorted[:limit]
		page.Next = PlaceOf(sorted[limit-1]).String()
	}
	for _, r := range sorted {
		r.Input, r.Result = nil, nil
		page.Records = append(page.Records, r)
	}
	return page
}
