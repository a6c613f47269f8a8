package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// attemptsOf gives the attempts of one route r, oldest first, each with its settlement.
const attemptsOf = `(SELECT json_agg(json_build_object('attempt', to_json(a), 'settlement', to_json(s)) ORDER BY a.fence)
	FROM aip.attempt a LEFT JOIN aip.attempt_settlement s ON s.action_id = a.action_id AND s.fence = a.fence
	WHERE a.action_id = r.action_id)`

const lookupSQL = `SELECT to_json(r), ` + attemptsOf + ` FROM aip.route r WHERE r.action_id = $1::text AND r.tenant_id = $2::text`

// Lookup implements registry.Router.
func (r *Registry) Lookup(ctx context.Context, tenant fleet.TenantID, action fleet.ActionID) (registry.RouteRecord, error) {
	p, err := needs("data", r.data, r.control, r.read)
	if err != nil {
		return registry.RouteRecord{}, err
	}
	var route, attempts []byte
	err = p.row(ctx, lookupSQL, []any{action.String(), tenant.String()}, &route, &attempts)
	if errors.Is(err, pgx.ErrNoRows) {
		return registry.RouteRecord{}, fleet.Errorf(fleet.NotFound, "route.action", "action %s has no route", action)
	}
	if err != nil {
		return registry.RouteRecord{}, refused("route.unavailable", "the route could not be read", err)
	}
	return recordOf(route, attempts)
}

type attemptDocument struct {
	Attempt    attemptRow     `json:"attempt"`
	Settlement *settlementRow `json:"settlement"`
}

func recordOf(route, attempts []byte) (registry.RouteRecord, error) {
	var row routeRow
	var docs []attemptDocument
	var record registry.RouteRecord
	if err := json.Unmarshal(route, &row); err != nil {
		return record, malformed(err)
	}
	if err := json.Unmarshal(attempts, &docs); err != nil || len(docs) == 0 {
		return record, malformed(err)
	}
	return recordFrom(row, docs)
}

func recordFrom(row routeRow, docs []attemptDocument) (record registry.RouteRecord, err error) {
	if record.Route, err = row.route(); err != nil {
		return record, malformed(err)
	}
	for _, doc := range docs {
		attempt, err := doc.Attempt.attempt()
		if err != nil {
			return record, malformed(err)
		}
		if doc.Settlement != nil {
			s, err := doc.Settlement.settlement()
			if err != nil {
				return record, malformed(err)
			}
			attempt.Settlement = &s
		}
		record.Attempts = append(record.Attempts, attempt)
	}
	return record, nil
}
