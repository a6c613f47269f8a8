package postgres

import (
	"context"
	_ "embed" // SQL files
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

//go:embed submit.sql
var submitSQL string

//go:embed get.sql
var getSQL string

//go:embed taken.sql
var takenSQL string

//go:embed advance.sql
var advanceSQL string

//go:embed renew.sql
var renewSQL string

//go:embed leave.sql
var leaveSQL string

//go:embed claim.sql
var claimSQL string

// Store is an action.Store in PostgreSQL. Use New.
type Store struct {
	db     patient
	now    func() time.Time
	shared *sharer
}

// New makes a store on a pool of aip_data. The caller has checked schema and role,
// and closes the pool. now is the clock by which deadlines are set: that of the
// process that also keeps them. Every change has a transaction of its own.
func New(db *pgxpool.Pool, now func() time.Time) *Store { return NewSharing(db, now, Sharing{}) }

// NewSharing is New with changes that share transactions. Close ends it.
func NewSharing(db *pgxpool.Pool, now func() time.Time, limits Sharing) *Store {
	limits.Batch = max(limits.Batch, 1)
	return &Store{db: patient{db}, now: now, shared: &sharer{limits: limits, db: patient{db}}}
}

// Close lets no change share a transaction any more, and waits for those under way.
func (s *Store) Close() { s.shared.close() }

var _ action.Store = (*Store)(nil)

// Submit implements action.Store.
func (s *Store) Submit(ctx context.Context, submission action.Submission) (action.Record, bool, error) {
	r, err := action.NewRecord(submission, s.now())
	if err != nil {
		return action.Record{}, false, err
	}
	var at time.Time
	err = s.shared.change(ctx, &write{action: r.ID.String(), statement: submitSQL, into: []any{&at}, args: []any{
		r.ID.String(), r.Tenant.String(), r.Capability.String(), r.Principal, []byte(r.Input),
		r.IdempotencyKey, r.Mode, r.Content.String(), r.Owner, r.Timeout.Microseconds(), r.Deadline,
	}})
	switch {
	case err == nil:
		r.CreatedAt, r.UpdatedAt = at.UTC(), at.UTC()
		return r, true, nil
	case errors.Is(err, pgx.ErrNoRows):
		old, err := s.holder(ctx, r)
		return old, false, err
	}
	return action.Record{}, false, writeError("action.submit", "the action could not be stored", err)
}

// holder reads what has the id or the key of a submission, and refuses if it is
// something else.
func (s *Store) holder(ctx context.Context, r action.Record) (action.Record, error) {
	var id, tenant string
	err := s.db.row(ctx, takenSQL, []any{r.ID.String(), r.Tenant.String(), r.Capability.String(), r.IdempotencyKey}, &id, &tenant)
	if errors.Is(err, pgx.ErrNoRows) { // rows are never deleted, archived ones neither
		return action.Record{}, fleet.Errorf(fleet.Contended, "action.submit", "the action is being submitted by somebody else")
	}
	if err != nil {
		return action.Record{}, readError("action.submit", "the action could not be read", err)
	}
	what := "the idempotency key"
	if id == r.ID.String() {
		what = "the action id"
	}
	if tenant != r.Tenant.String() {
		return action.Record{}, action.ConflictError(what)
	}
	parsed, err := fleet.ParseActionID(id)
	if err != nil {
		return action.Record{}, err
	}
	old, err := s.Get(ctx, r.Tenant, parsed)
	if fleet.CodeOf(err) == action.CodeArchived {
		return action.Record{}, s.over(ctx, r, parsed, what)
	}
	if err == nil && old.Content != r.Content {
		return action.Record{}, action.ConflictError(what)
	}
	return old, err
}

// over answers a submission whose id or key is that of an archived action.
func (s *Store) over(ctx context.Context, r action.Record, id fleet.ActionID, what string) error {
	state, content, _, err := s.archived(ctx, r.Tenant, id)
	if err != nil {
		return err
	}
	if content != r.Content {
		return action.ConflictError(what)
	}
	return action.ArchivedError(id, state)
}

// Get implements action.Store.
func (s *Store) Get(ctx context.Context, tenant fleet.TenantID, id fleet.ActionID) (action.Record, error) {
	var r action.Record
	err := s.db.use(ctx, func(conn *pgxpool.Conn) (err error) {
		r, err = scan(conn.QueryRow(ctx, getSQL, id.String(), tenant.String()))
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return action.Record{}, s.missing(ctx, tenant, id)
	}
	if err != nil {
		return action.Record{}, readError("action.get", "the action could not be read", err)
	}
	return r, nil
}

// missing says why there is no such action: it is archived, or there never was one that
// this tenant may know of.
func (s *Store) missing(ctx context.Context, tenant fleet.TenantID, id fleet.ActionID) error {
	state, _, over, err := s.archived(ctx, tenant, id)
	switch {
	case err != nil:
		return err
	case over:
		return action.GoneError(id, state)
	}
	return action.NotFoundError(id)
}

// Advance implements action.Store. One statement compares and sets; when it changes
// nothing, a read tells why.
func (s *Store) Advance(ctx context.Context, next action.Record) (action.Record, error) {
	if next.State.Final() != (len(next.Result) > 0) {
		return action.Record{}, action.CheckAdvance(next, next)
	}
	var from []string
	for _, state := range action.States() {
		if action.CanMove(state, next.State) {
			from = append(from, string(state))
		}
	}
	var result []byte
	if next.State.Final() {
		result = next.Result
	}
	problem, err := problemText(next.Problem)
	if err != nil {
		return action.Record{}, err
	}
	var revision uint64
	var at time.Time
	err = s.shared.change(ctx, &write{action: next.ID.String(), statement: advanceSQL, into: []any{&revision, &at}, args: []any{
		next.ID.String(), next.Tenant.String(), int64(next.Revision), from, string(next.State),
		int64(next.Runs), int64(next.Fence), next.Unsettled, next.CancelRequested, next.Owner, next.Timeout.Microseconds(),
		next.Deadline, next.Evidence.String(), problem, result,
	}})
	switch {
	case err == nil:
		next.Revision, next.UpdatedAt = revision, at.UTC()
		return next, nil
	case errors.Is(err, pgx.ErrNoRows):
		return action.Record{}, s.whyNot(ctx, next)
	}
	return action.Record{}, writeError("action.advance", "the action could not be changed", err)
}

func (s *Store) whyNot(ctx context.Context, next action.Record) error {
	old, err := s.Get(ctx, next.Tenant, next.ID)
	if err != nil {
		return err
	}
	if old.Revision == next.Revision {
		if err := action.CheckAdvance(old, next); err != nil {
			return err
		}
	}
	return action.MovedError(next.ID)
}

// Claim implements action.Store.
func (s *Store) Claim(ctx context.Context, claim action.Claim) ([]action.Record, error) {
	if claim.Hold <= 0 {
		return nil, writeError("action.owner", "the owner's lease could not be ended", s.db.exec(ctx, leaveSQL, claim.Owner))
	}
	if err := s.db.exec(ctx, renewSQL, claim.Owner, claim.Hold.Microseconds()); err != nil {
		return nil, writeError("action.owner", "the owner's lease could not be renewed", err)
	}
	if claim.Limit <= 0 {
		return nil, nil
	}
	claimed, err := collect(ctx, s.db, recordOf, claimSQL, claim.Owner, claim.Limit)
	if err != nil {
		return nil, writeError("action.claim", "orphaned actions could not be claimed", err)
	}
	return claimed, nil
}

func problemText(p *action.Problem) (string, error) {
	if p == nil {
		return "", nil
	}
	text, err := json.Marshal(p)
	if err != nil {
		return "", fleet.Errorf(fleet.Internal, "action.problem", "the problem cannot be written").Caused(err)
	}
	return string(text), nil
}
