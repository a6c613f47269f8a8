package postgres

import (
	"context"
	_ "embed" // SQL files
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

//go:embed untold.sql
var untoldSQL string

//go:embed told.sql
var toldSQL string

//go:embed archived.sql
var archivedSQL string

var _ action.Archive = (*Store)(nil)

// Archive implements action.Archive: one call of the owner's function, which also looks
// at the registry's reservations and open questions.
func (s *Store) Archive(ctx context.Context, keep time.Duration, limit int) (int, bool, error) {
	if err := action.CheckKeep(keep, limit); err != nil {
		return 0, false, err
	}
	var count *int
	if err := s.db.row(ctx, "SELECT aip.archive_actions($1::bigint, $2::integer)", []any{keep.Microseconds(), limit}, &count); err != nil {
		return 0, false, writeError("action.archive", "ended actions could not be archived", err)
	}
	if count == nil {
		return 0, false, nil
	}
	return *count, true, nil
}

// Untold implements action.Archive.
func (s *Store) Untold(ctx context.Context, limit int, hold time.Duration) ([]action.Ended, error) {
	claimed, err := collect(ctx, s.db, func(row pgx.CollectableRow) (e action.Ended, err error) {
		var id, tenant string
		if err := row.Scan(&id, &tenant); err != nil {
			return e, err
		}
		if e.ID, err = fleet.ParseActionID(id); err != nil {
			return e, err
		}
		e.Tenant, err = fleet.ParseTenantID(tenant)
		return e, err
	}, untoldSQL, limit, hold.Microseconds(), action.MaxTells, action.MaxTellPause.Microseconds())
	return claimed, writeError("action.untold", "archived actions could not be claimed", err)
}

// Told implements action.Archive.
func (s *Store) Told(ctx context.Context, ids ...fleet.ActionID) error {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	return writeError("action.told", "it could not be noted that hosts heard", s.db.exec(ctx, toldSQL, names))
}

// archived reads what stays of an archived action; found is false when it is not.
func (s *Store) archived(ctx context.Context, tenant fleet.TenantID, id fleet.ActionID) (state action.State, content fleet.Digest, found bool, err error) {
	var word, digest string
	err = s.db.row(ctx, archivedSQL, []any{id.String(), tenant.String()}, &word, &digest)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", content, false, nil
	}
	if err != nil {
		return "", content, false, readError("action.get", "the action could not be read", err)
	}
	content, err = fleet.ParseDigest(digest)
	return action.State(word), content, true, err
}
