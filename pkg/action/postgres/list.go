package postgres

import (
	"context"
	_ "embed" // SQL files
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
)

//go:embed list.sql
var listSQL string

//go:embed list_all.sql
var listAllSQL string

//go:embed list_owned.sql
var listOwnedSQL string

//go:embed list_uncertain.sql
var listUncertainSQL string

// end is a place before every record, newest first.
func end() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

// List implements action.Store.
func (s *Store) List(ctx context.Context, selection action.Selection) (action.Page, error) {
	at, after := end(), ""
	if selection.After != "" {
		place, err := action.ParsePlace(selection.After)
		if err != nil {
			return action.Page{}, err
		}
		at, after = place.At, place.ID.String()
	}
	limit := selection.PageLimit()
	query, args := pageQuery(selection, at, after, limit+1)
	all, err := collect(ctx, s.db, recordOf, query, args...)
	if err != nil {
		return action.Page{}, readError("action.list", "the actions could not be listed", err)
	}
	return action.NewPage(all, limit), nil
}

// pageQuery picks the statement whose plan fits the selection.
func pageQuery(s action.Selection, at time.Time, after string, limit int) (string, []any) {
	var states []string
	for _, state := range s.States {
		states = append(states, string(state))
	}
	switch {
	case s.Owner != "":
		return listOwnedSQL, []any{s.Owner, at, after, limit}
	case !s.Tenant.IsZero():
		return listSQL, []any{s.Tenant.String(), states, at, after, limit}
	case len(states) == 1 && s.States[0] == action.Uncertain:
		return listUncertainSQL, []any{at, after, limit}
	}
	return listAllSQL, []any{states, at, after, limit}
}
