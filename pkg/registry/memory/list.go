package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/aipfleet/aipfleet/pkg/catalog"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// row is one record on its way into a page: its id, the key that it is ordered by,
// what filters look at, and how to read it.
type row[T any] struct {
	id, key  string
	tenant   fleet.TenantID
	instance fleet.InstanceID
	versions []fleet.VersionID
	replica  fleet.ReplicaID
	state    string
	reserved bool
	at       time.Time
	read     func() T
}

// List implements registry.Reader.
func (r *Registry) List(ctx context.Context, s registry.Selection) (registry.Records, error) {
	if s.Limit == 0 {
		s.Limit = 100
	}
	if s.Limit < 0 || s.Limit > registry.MaxListItems {
		return registry.Records{}, fleet.Invalidf("list.limit", "a page has 1..%d records, not %d", registry.MaxListItems, s.Limit)
	}
	end, err := r.begin(ctx)
	if err != nil {
		return registry.Records{}, err
	}
	defer end()
	out := registry.Records{Revision: r.revision}
	fill, ok := map[registry.Noun]func(){
		registry.Types:           func() { out.Types, out.Next = paged(s, r.typeRows()) },
		registry.Versions:        func() { out.Versions, out.Next = paged(s, r.versionRows()) },
		registry.Instances:       func() { out.Instances, out.Next = paged(s, r.instanceRows()) },
		registry.Replicas:        func() { out.Replicas, out.Next = paged(s, r.replicaRows()) },
		registry.Bindings:        func() { out.Bindings, out.Next = paged(s, r.bindingRows()) },
		registry.Quotas:          func() { out.Quotas, out.Next = paged(s, r.quotaRows()) },
		registry.Capabilities:    func() { out.Capabilities, out.Next = paged(s, r.capabilityRows(s.Tenant)) },
		registry.Tenants:         func() { out.Tenants, out.Next = paged(s, r.tenantRows()) },
		registry.Routes:          func() { out.Routes, out.Next = paged(s, r.routeRows()) },
		registry.Admissions:      func() { out.Admissions, out.Next = paged(s, r.admissionRows()) },
		registry.Reconciliations: func() { out.Reconciliations, out.Next = paged(s, r.uncertainRows()) },
		registry.TrustRevisions:  func() { out.Trust, out.Next = paged(s, r.trustRows()) },
		registry.Revocations:     func() { out.Revocations, out.Next = paged(s, r.revocationRows()) },
		registry.Events:          func() { out.Events, out.Next = paged(s, r.eventRows()) },
		registry.Archived:        func() { out.Archived, out.Next = paged(s, r.archivedRows()) },
	}[s.Noun]
	if !ok {
		return registry.Records{}, fleet.Invalidf("list.noun", "%q is not a kind of record", fleet.Printable(string(s.Noun), 32))
	}
	fill()
	return out, nil
}

// paged filters, orders and cuts the rows of one noun.
func paged[T any](s registry.Selection, rows []row[T]) (items []T, next string) {
	rows = slices.DeleteFunc(rows, func(w row[T]) bool { return !selected(s, w) })
	slices.SortFunc(rows, func(a, b row[T]) int {
		if a.key < b.key {
			return -1
		}
		return 1
	})
	items = []T{}
	bytes := 0
	for _, w := range rows {
		if len(s.IDs) == 0 && w.key <= s.After {
			continue
		}
		item := w.read()
		bytes += written(item)
		if len(s.IDs) == 0 && (len(items) == s.Limit || len(items) > 0 && bytes > registry.MaxListBytes) {
			return items, next
		}
		items, next = append(items, deepCopy(item)), w.key
	}
	return items, ""
}

// written is how many bytes a record has as JSON; one that has none fills a page.
func written(item any) int {
	raw, err := json.Marshal(item)
	if err != nil {
		return registry.MaxListBytes
	}
	return len(raw)
}

func selected[T any](s registry.Selection, w row[T]) bool {
	return (len(s.IDs) == 0 || slices.Contains(s.IDs, w.id)) &&
		(s.Tenant.IsZero() || w.tenant == s.Tenant) &&
		(s.Instance.IsZero() || w.instance == s.Instance) &&
		(s.Version.IsZero() || slices.Contains(w.versions, s.Version)) &&
		(s.Replica.IsZero() || w.replica == s.Replica) &&
		(s.State == "" || w.state == s.State) &&
		(!s.Reserved || w.reserved) &&
		(s.Since.IsZero() || !w.at.IsZero() && !w.at.Before(s.Since)) &&
		(s.Until.IsZero() || !w.at.IsZero() && w.at.Before(s.Until))
}

// newest orders by falling time, then id.
func newest(at time.Time, id string) string {
	return fmt.Sprintf("%019d|%s", math.MaxInt64-at.UnixMicro(), id)
}

func enabled(on bool) string {
	if on {
		return "enabled"
	}
	return "disabled"
}

func (r *Registry) typeRows() (rows []row[fleet.ConnectorType]) {
	for id, t := range r.types {
		rows = append(rows, row[fleet.ConnectorType]{id: id.String(), key: id.String(), state: enabled(t.Enabled),
			read: func() fleet.ConnectorType { return t }})
	}
	return rows
}

func (r *Registry) versionRows() (rows []row[fleet.ConnectorVersion]) {
	for id, v := range r.versions {
		rows = append(rows, row[fleet.ConnectorVersion]{id: id.String(), key: id.String(), state: string(v.Status),
			versions: []fleet.VersionID{id}, read: func() fleet.ConnectorVersion { return v }})
	}
	return rows
}

func (r *Registry) instanceRows() (rows []row[fleet.ConnectorInstance]) {
	for id, i := range r.instances {
		w := row[fleet.ConnectorInstance]{id: id.String(), key: id.String(), tenant: i.Tenant, instance: id,
			state: enabled(i.Enabled), read: func() fleet.ConnectorInstance { return i }}
		for _, s := range i.Serving {
			w.versions = append(w.versions, s.Version)
		}
		rows = append(rows, w)
	}
	return rows
}

func (r *Registry) replicaRows() (rows []row[registry.ReplicaRecord]) {
	for id, d := range r.replicas {
		rows = append(rows, row[registry.ReplicaRecord]{id: id.String(), key: id.String(),
			tenant: r.instances[d.Instance].Tenant, instance: d.Instance, versions: []fleet.VersionID{d.Version},
			replica: id, state: string(r.live[id].Status), reserved: r.live[id].Active > 0,
			read: func() registry.ReplicaRecord { return r.replicaRecord(id) }})
	}
	return rows
}

func (r *Registry) replicaRecord(id fleet.ReplicaID) registry.ReplicaRecord {
	d := r.replicas[id]
	return registry.ReplicaRecord{Replica: d, Tenant: r.instances[d.Instance].Tenant, Live: r.live[id]}
}

func (r *Registry) bindingRows() (rows []row[fleet.CapabilityBinding]) {
	for k, b := range r.bindings {
		rows = append(rows, row[fleet.CapabilityBinding]{id: catalog.BindingID(k), key: catalog.BindingID(k),
			tenant: k.Tenant, instance: k.Instance, state: enabled(b.Enabled),
			read: func() fleet.CapabilityBinding { return b }})
	}
	return rows
}

func (r *Registry) quotaRows() (rows []row[fleet.QuotaPolicy]) {
	for ref, q := range r.quotas {
		rows = append(rows, row[fleet.QuotaPolicy]{id: ref, key: ref, state: enabled(q.Enabled),
			read: func() fleet.QuotaPolicy { return q }})
	}
	return rows
}

// capabilityRows lists what versions offer; for a tenant, what its bindings reach.
func (r *Registry) capabilityRows(tenant fleet.TenantID) (rows []row[registry.CapabilityRecord]) {
	for id, v := range r.versions {
		for _, d := range v.Manifest.Capabilities {
			w := row[registry.CapabilityRecord]{id: d.ID.String(), key: d.ID.String() + "|" + id.String(),
				versions: []fleet.VersionID{id}, state: string(v.Status)}
			for _, i := range r.offered[tenant][d.ID] {
				if catalog.Lists(r.instances[i], id) {
					w.tenant = tenant
				}
			}
			w.read = func() registry.CapabilityRecord {
				digest, _ := catalog.ContractDigest(d) // it was valid when published
				return registry.CapabilityRecord{Definition: d, ContractDigest: digest, Version: id, Type: v.Type}
			}
			rows = append(rows, w)
		}
	}
	return rows
}

func (r *Registry) tenantRows() (rows []row[registry.TenantRecord]) {
	all := map[fleet.TenantID]*registry.TenantRecord{}
	at := func(t fleet.TenantID) *registry.TenantRecord {
		if all[t] == nil {
			all[t] = &registry.TenantRecord{Tenant: t}
		}
		return all[t]
	}
	for _, i := range r.instances {
		at(i.Tenant).Instances++
	}
	for _, d := range r.replicas {
		at(r.instances[d.Instance].Tenant).Replicas++
	}
	for k := range r.bindings {
		at(k.Tenant).Bindings++
	}
	for id := range r.reserved {
		at(r.routes[id].Route.Tenant).Reserved++
	}
	for t, rec := range all {
		rows = append(rows, row[registry.TenantRecord]{id: t.String(), key: t.String(), tenant: t,
			read: func() registry.TenantRecord { return *rec }})
	}
	return rows
}

func (r *Registry) routeRows() (rows []row[registry.RouteRecord]) {
	for id, rec := range r.routes {
		w := row[registry.RouteRecord]{id: id.String(), key: newest(rec.Route.AssignedAt, id.String()),
			tenant: rec.Route.Tenant, instance: rec.Route.Instance, versions: []fleet.VersionID{rec.Route.Version},
			replica: rec.Route.Replica, reserved: r.reserved[id], state: "reserved", at: rec.Route.AssignedAt,
			read: func() registry.RouteRecord { return *rec }}
		if s := rec.Current().Settlement; s != nil {
			w.state = string(s.Outcome)
		}
		rows = append(rows, w)
	}
	return rows
}

func (r *Registry) admissionRows() (rows []row[registry.Admission]) {
	for _, a := range r.admissions {
		rows = append(rows, row[registry.Admission]{id: a.Version.String(),
			key: a.Version.String() + "|" + a.PackageDigest.String(), versions: []fleet.VersionID{a.Version},
			state: a.State, read: func() registry.Admission { return a }})
	}
	return rows
}

func (r *Registry) uncertainRows() (rows []row[fleet.Reconciliation]) {
	for k, u := range r.uncertain {
		rows = append(rows, row[fleet.Reconciliation]{id: k.Action.String(),
			key:    newest(u.OpenedAt, fmt.Sprintf("%s|%019d", k.Action, math.MaxInt64-int64(k.Fence))),
			tenant: u.Tenant, instance: u.Instance, replica: u.Replica,
			versions: []fleet.VersionID{r.versionOf(k.Action)}, state: string(u.State), at: u.OpenedAt,
			read: func() fleet.Reconciliation { return *u }})
	}
	return rows
}

func (r *Registry) versionOf(id fleet.ActionID) (v fleet.VersionID) {
	if rec, ok := r.routes[id]; ok {
		v = rec.Route.Version
	}
	return v
}

func (r *Registry) trustRows() (rows []row[registry.TrustRevision]) {
	for _, t := range r.trust {
		rows = append(rows, row[registry.TrustRevision]{id: strconv.FormatUint(t.Number, 10),
			key: fmt.Sprintf("%019d", t.Number), read: func() registry.TrustRevision { return t }})
	}
	return rows
}

func (r *Registry) revocationRows() (rows []row[registry.RevocationList]) {
	for _, l := range r.revoked {
		rows = append(rows, row[registry.RevocationList]{id: strconv.FormatUint(l.Number, 10),
			key: fmt.Sprintf("%019d", l.Number), read: func() registry.RevocationList { return l }})
	}
	return rows
}

func (r *Registry) eventRows() (rows []row[registry.Event]) {
	for _, e := range r.events {
		rows = append(rows, row[registry.Event]{id: strconv.FormatUint(e.Sequence, 10),
			key: fmt.Sprintf("%019d", math.MaxInt64-int64(e.Sequence)), state: e.Kind, at: e.At,
			read: func() registry.Event { return e }})
	}
	return rows
}

// archivedRows lists routes that were moved away. Content is kept and given up by the
// store of actions, of which this registry knows nothing.
func (r *Registry) archivedRows() (rows []row[registry.ArchivedAction]) {
	for id, t := range r.archived {
		rows = append(rows, row[registry.ArchivedAction]{id: id.String(), key: newest(t.at, id.String()),
			tenant: t.record.Route.Tenant, at: t.at, read: func() registry.ArchivedAction {
				return registry.ArchivedAction{Action: id, Tenant: t.record.Route.Tenant, Capability: t.record.Route.Capability, ArchivedAt: t.at,
					Route: &registry.ArchivedRoute{ArchivedAt: t.at, Record: &t.record}}
			}})
	}
	return rows
}
