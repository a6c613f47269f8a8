package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/catalog"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Advisory locks of the database, in the two-number space; actions lock in the other.
const (
	lockPublication = "4871, 1" // shared by routing, exclusive for the last step of a publication
	lockPublisher   = "4871, 2" // one publisher at a time
)

// prepared is a validated publication that is not written yet.
type prepared struct {
	publication registry.Publication
	result      catalog.Result
	set         registry.ChangeSet
	admit       bool // the admission is new
	revoke      bool // the revocation list is new
	moves       []registry.VersionMove
	world       catalog.World
}

// Apply implements registry.Publisher. One publisher at a time validates and writes
// everything in one transaction; only then it asks for the exclusive publication
// lock, which it holds for the last few statements whatever the size (G13, G17).
func (r *Registry) Apply(ctx context.Context, set registry.ChangeSet, expected uint64) (registry.Publication, error) {
	p, err := r.controlPool()
	if err != nil {
		return registry.Publication{}, err
	}
	var out registry.Publication
	err = r.transact(ctx, p, "publish.unavailable", func(tx pgx.Tx) error {
		revision, err := lockForPublisher(ctx, tx)
		if err != nil {
			return err
		}
		if revision != expected {
			return fleet.Errorf(fleet.Conflict, "publish.revision_moved", "the catalog is at revision %d, not %d", revision, expected).
				Advise("plan again against the present revision")
		}
		draft, err := prepare(ctx, tx, set, revision)
		if out = draft.publication; err != nil || !out.Changed {
			return err
		}
		return r.commitDraft(ctx, tx, draft)
	})
	if err != nil {
		return registry.Publication{Before: out.Before, After: out.Before, Changes: []registry.Change{}}, err
	}
	return out, nil
}

// Preview implements registry.Publisher: Apply up to its last step, rolled back.
func (r *Registry) Preview(ctx context.Context, set registry.ChangeSet) (registry.Publication, error) {
	p, err := r.controlPool()
	if err != nil {
		return registry.Publication{}, err
	}
	previewed := fleet.Errorf(fleet.Internal, "publish.preview", "a preview is rolled back")
	var out registry.Publication
	err = r.transact(ctx, p, "publish.unavailable", func(tx pgx.Tx) error {
		revision, err := lockForPublisher(ctx, tx)
		if err != nil {
			return err
		}
		draft, err := prepare(ctx, tx, set, revision)
		if out = draft.publication; err != nil {
			return err
		}
		if out.Changed {
			if err := r.write(ctx, tx, draft); err != nil {
				return err
			}
		}
		return previewed
	})
	if errors.Is(err, previewed) {
		err = nil
	}
	return out, err
}

func lockForPublisher(ctx context.Context, tx pgx.Tx) (revision uint64, err error) {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock("+lockPublisher+")"); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, "SELECT revision FROM aip.catalog_revision").Scan(&revision)
	return revision, err
}

// prepare validates a change set against what is published. It writes nothing.
func prepare(ctx context.Context, tx pgx.Tx, set registry.ChangeSet, revision uint64) (prepared, error) {
	d := prepared{set: set, publication: registry.Publication{Before: revision, After: revision, Changes: []registry.Change{}}}
	if strings.TrimSpace(set.Actor) == "" {
		return d, fleet.Invalidf("publish.actor", "a publication names its actor")
	}
	var err error
	if d.world, err = loadWorld(ctx, tx, set); err != nil {
		return d, err
	}
	if d.result, err = catalog.Check(d.world, set.Set()); err != nil {
		return d, err
	}
	evidence, err := checkEvidence(ctx, tx, &d)
	if err != nil {
		return d, err
	}
	d.publication.Changes = append(registry.ChangesOf(d.result.Differences), evidence...)
	if d.publication.Changed = len(d.publication.Changes) > 0; d.publication.Changed {
		d.publication.After++
	}
	return d, nil
}

// checkEvidence judges what comes beside the records (G33).
func checkEvidence(ctx context.Context, tx pgx.Tx, d *prepared) ([]registry.Change, error) {
	trust, err := newestTrust(ctx, tx)
	if err != nil {
		return nil, err
	}
	var changes []registry.Change
	if t := d.set.Trust; t != nil {
		if err := registry.CheckTrust(*t, trust); err != nil {
			return nil, err
		}
		trust = t.Number
		changes = append(changes, registry.Change{Noun: registry.TrustRevisions, ID: fmt.Sprint(t.Number), Op: "create"})
	}
	newest, err := newestList(ctx, tx)
	if err != nil {
		return nil, err
	}
	revoked, err := checkRevocation(ctx, tx, d, newest)
	if err != nil {
		return nil, err
	}
	changes = append(changes, revoked...)
	if err := registry.CheckAdmission(d.set.Admission, d.result.Versions, registry.InForce{Trust: trust, Revocations: newest}); err != nil {
		return nil, err
	}
	if a := d.set.Admission; a != nil {
		known, err := admittedAlready(ctx, tx, *a)
		if err != nil {
			return nil, err
		}
		if d.admit = !known; d.admit {
			changes = append(changes, registry.Change{Noun: registry.Admissions, ID: a.Version.String(), Op: "create"})
		}
	}
	return changes, nil
}

// commitDraft writes the draft and makes it the next revision.
func (r *Registry) commitDraft(ctx context.Context, tx pgx.Tx, d prepared) error {
	if err := r.write(ctx, tx, d); err != nil {
		return err
	}
	if err := r.lockPublicationAlone(ctx, tx); err != nil {
		return err
	}
	if err := resize(ctx, tx, d); err != nil {
		return err
	}
	err := advance(ctx, tx, d.publication.After, event{
		kind: "publication", subject: fmt.Sprintf("revision %d", d.publication.After),
		actor: d.set.Actor, reason: d.set.Reason, detail: fmt.Sprintf("%d changes", len(d.publication.Changes)),
	})
	if err != nil {
		return err
	}
	return journalMoves(ctx, tx, d)
}

// lockPublicationAlone takes the exclusive lock in short tries: while an exclusive
// locker waits, new routes wait behind it, so it may never wait for long.
func (r *Registry) lockPublicationAlone(ctx context.Context, tx pgx.Tx) error {
	for try := range 20 * maxTries {
		if _, err := tx.Exec(ctx, "SAVEPOINT publication; SET LOCAL lock_timeout = '40ms'", pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock("+lockPublication+")")
		if err == nil {
			_, err = tx.Exec(ctx, "RELEASE SAVEPOINT publication")
			return err
		}
		if !r.retryable(err) {
			return err
		}
		if _, err := tx.Exec(ctx, "ROLLBACK TO SAVEPOINT publication; RELEASE SAVEPOINT publication", pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		if !pause(ctx, try) {
			break
		}
	}
	return fleet.Errorf(fleet.Contended, "publish.busy", "routing never paused long enough to publish").Advise("try again")
}

// advance makes the revision the next one. The row is checked once more: the
// publisher's lock already made it impossible that another moved it.
func advance(ctx context.Context, tx pgx.Tx, to uint64, e event) error {
	tag, err := tx.Exec(ctx, "UPDATE aip.catalog_revision SET revision = $1::bigint WHERE revision = $1::bigint - 1", to)
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		return fleet.Errorf(fleet.Conflict, "publish.revision_moved", "the catalog is not at revision %d any more", to-1).
			Advise("plan again against the present revision")
	}
	return insertEvent(ctx, tx, e)
}

// Transition implements registry.Publisher.
func (r *Registry) Transition(ctx context.Context, move registry.VersionTransition) (registry.Publication, error) {
	none := registry.Publication{Changes: []registry.Change{}}
	if err := registry.Named(move.Actor, move.Reason); err != nil {
		return none, err
	}
	p, err := r.controlPool()
	if err != nil {
		return none, err
	}
	var out registry.Publication
	err = r.transact(ctx, p, "publish.unavailable", func(tx pgx.Tx) error {
		out, err = r.transition(ctx, tx, move)
		return err
	})
	if err != nil {
		return registry.Publication{Before: out.Before, After: out.Before, Changes: []registry.Change{}}, err
	}
	return out, nil
}

func (r *Registry) transition(ctx context.Context, tx pgx.Tx, move registry.VersionTransition) (registry.Publication, error) {
	revision, err := lockForPublisher(ctx, tx)
	out := registry.Publication{Before: revision, After: revision, Changes: []registry.Change{}}
	if err != nil {
		return out, err
	}
	found, _, err := fetch(ctx, tx, versionListing(), registry.Selection{IDs: []string{move.Version.String()}}, decoded[fleet.ConnectorVersion])
	if err != nil {
		return out, err
	}
	if len(found) == 0 {
		return out, fleet.Errorf(fleet.NotFound, "publish.version", "version %s is not published", move.Version)
	}
	moved, changed, err := catalog.Move(found[0], move.To)
	if err != nil || !changed {
		return out, err
	}
	if err := writeStatus(ctx, tx, moved); err != nil {
		return out, err
	}
	if err := r.lockPublicationAlone(ctx, tx); err != nil {
		return out, err
	}
	out.After, out.Changed = revision+1, true
	out.Changes = append(out.Changes, registry.MoveChange(found[0], moved))
	return out, advance(ctx, tx, out.After, event{
		kind: "transition", subject: moved.ID.String(), actor: move.Actor, reason: move.Reason,
		detail: string(found[0].Status) + " to " + string(moved.Status),
	})
}

// writeStatus moves a version and the chains of every instance that serves it.
func writeStatus(ctx context.Context, tx pgx.Tx, v fleet.ConnectorVersion) error {
	_, err := tx.Exec(ctx, "UPDATE aip.version_status SET status = $2::text, status_before = $3::text WHERE version_id = $1::text",
		v.ID.String(), string(v.Status), string(v.StatusBefore))
	if err != nil {
		return err
	}
	if v.Status == fleet.VersionRevoked {
		if _, err := tx.Exec(ctx, "UPDATE aip.admission SET state = 'revoked' WHERE version_id = $1::text", v.ID.String()); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, `SELECT aip.rebuild_candidates(ARRAY(SELECT instance_id FROM aip.instance_serving WHERE version_id = $1::text))`, v.ID.String())
	return err
}
