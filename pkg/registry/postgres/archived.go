package postgres

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// archivedListing reads the two archives as one list. Of an action that is in both, the
// later entry is dropped, so that it is listed once, where it was first archived. Each
// side is one table read through the index of its newest, the rest are primary keys: a
// page costs the same however much is archived.
func archivedListing() listing {
	return listing{
		from: `(SELECT t.action_id, t.archived_at, true AS moved FROM aip.tombstone t
			UNION ALL SELECT x.action_id, x.archived_at, false FROM aip.action_archive x) g`,
		document: `json_build_object('action_id', g.action_id, 'archived_at', g.archived_at,
			'route', (SELECT json_build_object('tenant_id', t.tenant_id, 'capability_id', t.capability_id, 'archived_at', t.archived_at,
				'document', (SELECT d.document FROM aip.archive d WHERE d.action_id = t.action_id))
				FROM aip.tombstone t WHERE t.action_id = g.action_id),
			'content', (SELECT json_build_object('tenant_id', a.tenant_id, 'capability_id', a.capability_id, 'archived_at', x.archived_at,
				'state', x.state, 'ended_at', x.ended_at, 'evidence_digest', x.evidence_digest, 'result_digest', x.result_digest,
				'tells', x.tells, 'told_at', x.told_at)
				FROM aip.action_archive x JOIN aip.action a ON a.action_id = x.action_id WHERE x.action_id = g.action_id))`,
		once: `NOT CASE WHEN g.moved
			THEN EXISTS (SELECT FROM aip.action_archive x WHERE x.action_id = g.action_id AND x.archived_at < g.archived_at)
			ELSE EXISTS (SELECT FROM aip.tombstone t WHERE t.action_id = g.action_id AND t.archived_at <= g.archived_at) END`,
		keys: []string{"g.archived_at", "g.action_id"}, kinds: []string{"timestamptz", "text"}, falling: true,
		ids: "g.action_id", at: "g.archived_at",
		// A value, and not EXISTS: of that the planner would make a hash of the whole table.
		tenant: `$ = COALESCE((SELECT t.tenant_id FROM aip.tombstone t WHERE t.action_id = g.action_id),
			(SELECT a.tenant_id FROM aip.action a WHERE a.action_id = g.action_id))`,
		state: "$ = (SELECT x.state FROM aip.action_archive x WHERE x.action_id = g.action_id)",
	}
}

type archivedDocument struct {
	Action     string           `json:"action_id"`
	ArchivedAt time.Time        `json:"archived_at"`
	Route      *movedDocument   `json:"route"`
	Content    *givenUpDocument `json:"content"`
}

// ownerDocument is whose an archived action was; both archives say it.
type ownerDocument struct {
	Tenant     string    `json:"tenant_id"`
	Capability string    `json:"capability_id"`
	ArchivedAt time.Time `json:"archived_at"`
}

// movedDocument is a tombstone with the rows that archive_action wrote, as they were.
type movedDocument struct {
	ownerDocument
	Document *struct {
		Route       routeRow        `json:"route"`
		Attempts    []attemptRow    `json:"attempts"`
		Settlements []settlementRow `json:"settlements"`
	} `json:"document"`
}

type givenUpDocument struct {
	ownerDocument
	State    string     `json:"state"`
	EndedAt  time.Time  `json:"ended_at"`
	Evidence string     `json:"evidence_digest"`
	Result   string     `json:"result_digest"`
	Tells    uint64     `json:"tells"`
	ToldAt   *time.Time `json:"told_at"`
}

func archivedOf(document []byte) (out registry.ArchivedAction, err error) {
	var doc archivedDocument
	if err := json.Unmarshal(document, &doc); err != nil {
		return out, malformed(err)
	}
	var p reading
	out.Action, out.ArchivedAt = read(&p, fleet.ParseActionID, doc.Action), doc.ArchivedAt.UTC()
	var owner ownerDocument
	if doc.Content != nil {
		owner, out.Content = doc.Content.ownerDocument, doc.Content.content(&p)
	}
	if doc.Route != nil {
		owner = doc.Route.ownerDocument
		if out.Route, err = doc.Route.route(); err != nil {
			return out, err
		}
	}
	out.Tenant, out.Capability = read(&p, fleet.ParseTenantID, owner.Tenant), read(&p, fleet.ParseCapabilityID, owner.Capability)
	if p.err != nil {
		return out, malformed(p.err)
	}
	return out, nil
}

func (d *givenUpDocument) content(p *reading) *registry.ArchivedContent {
	c := &registry.ArchivedContent{
		State: d.State, EndedAt: d.EndedAt.UTC(), ArchivedAt: d.ArchivedAt.UTC(), Tells: d.Tells,
		Evidence: optional(p, fleet.ParseDigest, d.Evidence), Result: optional(p, fleet.ParseDigest, d.Result),
	}
	if d.ToldAt != nil {
		c.ToldAt = d.ToldAt.UTC()
	}
	return c
}

// route puts each settlement to its attempt, as a live route has them.
func (d *movedDocument) route() (*registry.ArchivedRoute, error) {
	out := &registry.ArchivedRoute{ArchivedAt: d.ArchivedAt.UTC()}
	if d.Document == nil {
		return out, nil
	}
	if len(d.Document.Attempts) == 0 {
		return nil, malformed(errors.New("an archived route without an attempt"))
	}
	docs := make([]attemptDocument, len(d.Document.Attempts))
	for i, a := range d.Document.Attempts {
		docs[i].Attempt = a
		for j, s := range d.Document.Settlements {
			if s.Fence == a.Fence {
				docs[i].Settlement = &d.Document.Settlements[j]
			}
		}
	}
	record, err := recordFrom(d.Document.Route, docs)
	out.Record = &record
	return out, err
}
