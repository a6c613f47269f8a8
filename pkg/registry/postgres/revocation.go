package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// newestList is the revocation list in force, nil when there is none.
func newestList(ctx context.Context, tx pgx.Tx) (*registry.RevocationList, error) {
	l := revocationListing()
	var document []byte
	err := tx.QueryRow(ctx, "SELECT "+l.document+" FROM "+l.from+" ORDER BY l.number DESC LIMIT 1").Scan(&document)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := decoded[registry.RevocationList](document)
	return &list, err
}

// checkRevocation judges a new list and says which versions it ends. All versions
// are looked at: the list names them by what they were made of.
func checkRevocation(ctx context.Context, tx pgx.Tx, d *prepared, newest *registry.RevocationList) ([]registry.Change, error) {
	l := d.set.Revocation
	if l == nil {
		return nil, nil
	}
	if d.set.Admission != nil {
		return nil, fleet.Invalidf("publish.revocation_alone", "a revocation list comes without an admission")
	}
	var err error
	if d.revoke, err = registry.CheckRevocation(*l, newest); err != nil || !d.revoke {
		return nil, err
	}
	versions, err := unrevoked(ctx, tx)
	if err != nil {
		return nil, err
	}
	d.moves = registry.RevokedBy(*l, versions)
	changes := []registry.Change{{Noun: registry.Revocations, ID: fmt.Sprint(l.Number), Op: "create"}}
	for _, m := range d.moves {
		changes = append(changes, registry.MoveChange(m.Before, m.After))
	}
	return changes, nil
}

// unrevoked reads what a list can name of every version that is not revoked.
func unrevoked(ctx context.Context, tx pgx.Tx) ([]fleet.ConnectorVersion, error) {
	rows, err := tx.Query(ctx, `SELECT json_build_object('id', v.id, 'type_id', v.type_id, 'version', v.version, 'status', s.status,
			'status_before', s.status_before, 'manifest_digest', v.manifest_digest, 'artifact_digest', v.artifact_digest,
			'attestation', v.attestation::json)
		FROM aip.connector_version v JOIN aip.version_status s ON s.version_id = v.id WHERE s.status <> 'revoked'`)
	if err != nil {
		return nil, err
	}
	var versions []fleet.ConnectorVersion
	var document []byte
	_, err = pgx.ForEachRow(rows, []any{&document}, func() error {
		v, err := decoded[fleet.ConnectorVersion](document)
		versions = append(versions, v)
		return err
	})
	return versions, err
}

// writeRevocation keeps the list, and ends what it names on the routes too.
func writeRevocation(ctx context.Context, tx pgx.Tx, d prepared) error {
	if !d.revoke {
		return nil
	}
	l := d.set.Revocation
	entries, err := json.Marshal(l.Entries)
	if err != nil {
		return fleet.Invalidf("publish.json", "the revocation list cannot be written as JSON").Caused(err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO aip.revocation_list (number, digest, document, entries, issued_at, actor, reason, applied_at)
		VALUES ($1::bigint, $2::text, $3::text, $4::text, $5::timestamptz, $6::text, $7::text, aip.clock())`,
		l.Number, l.Digest.String(), string(l.Document), string(entries), stored(l.IssuedAt), l.Actor, l.Reason)
	if err != nil {
		return err
	}
	for _, m := range d.moves {
		if err := writeStatus(ctx, tx, m.After); err != nil {
			return err
		}
	}
	return nil
}

// journalMoves writes what a list ended, at the revision that it made.
func journalMoves(ctx context.Context, tx pgx.Tx, d prepared) error {
	for _, m := range d.moves {
		err := insertEvent(ctx, tx, event{
			kind: "transition", subject: m.After.ID.String(), actor: d.set.Actor, reason: m.Reason,
			detail: string(m.Before.Status) + " to " + string(m.After.Status),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
