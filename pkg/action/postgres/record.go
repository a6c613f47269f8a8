package postgres

import (
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// texts are the columns that parsing turns into values.
type texts struct {
	id, tenant, capability, content, state, evidence, problem string
	timeout                                                   int64
}

// scan reads one row of the column list that all statements share.
func scan(row pgx.Row) (action.Record, error) {
	var r action.Record
	var t texts
	var input []byte
	err := row.Scan(&t.id, &t.tenant, &t.capability, &r.Principal, &input, &r.IdempotencyKey, &r.Mode, &t.content, &r.CreatedAt,
		&r.Revision, &t.state, &r.Runs, &r.Fence, &r.Unsettled, &r.CancelRequested, &r.Owner, &t.timeout, &r.Deadline,
		&t.evidence, &t.problem, &r.UpdatedAt, &r.Result)
	if err != nil {
		return action.Record{}, err
	}
	r.Input, r.State, r.Timeout = input, action.State(t.state), time.Duration(t.timeout)*time.Microsecond
	r.CreatedAt, r.UpdatedAt, r.Deadline = r.CreatedAt.UTC(), r.UpdatedAt.UTC(), r.Deadline.UTC()
	return t.into(r)
}

func (t texts) into(r action.Record) (action.Record, error) {
	var err error
	if r.ID, err = fleet.ParseActionID(t.id); err != nil {
		return r, err
	}
	if r.Tenant, err = fleet.ParseTenantID(t.tenant); err != nil {
		return r, err
	}
	if r.Capability, err = fleet.ParseCapabilityID(t.capability); err != nil {
		return r, err
	}
	if r.Content, err = fleet.ParseDigest(t.content); err != nil {
		return r, err
	}
	if err := r.Evidence.UnmarshalText([]byte(t.evidence)); err != nil {
		return r, err
	}
	if t.problem == "" {
		return r, nil
	}
	r.Problem = &action.Problem{}
	return r, json.Unmarshal([]byte(t.problem), r.Problem)
}
