package tui

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// routeFacts is the inspection of one action's route.
type routeFacts struct {
	Route     registry.RouteRecord // without the tokens of its fences
	Replica   *registry.ReplicaRecord
	Version   fleet.VersionStatus
	Uncertain []fleet.Reconciliation
	Retry     retry
}

// inspection is the facts as aipctl route inspect writes them.
type inspection struct {
	Route           fleet.RouteAssignment   `json:"route"`
	State           string                  `json:"state"`
	Attempts        []fleet.Attempt         `json:"attempts"`
	Replica         *registry.ReplicaRecord `json:"replica,omitempty"`
	VersionStatus   fleet.VersionStatus     `json:"version_status,omitempty"`
	Reconciliations []fleet.Reconciliation  `json:"reconciliations"`
	Retry           retry                   `json:"retry"`
}

func (c Config) readRoute(ctx context.Context, id string) (facts, error) {
	page, err := c.one(ctx, registry.Routes, id)
	if err != nil {
		return nil, err
	}
	if len(page.Routes) == 0 {
		return absent{target{routePage, id}, "route of " + id}, nil
	}
	f := routeFacts{Route: veiled(page.Routes[0])}
	if page, err = c.one(ctx, registry.Replicas, f.Route.Route.Replica.String()); err != nil {
		return nil, err
	}
	if len(page.Replicas) == 1 {
		f.Replica = &page.Replicas[0]
	}
	if page, err = c.one(ctx, registry.Versions, f.Route.Route.Version.String()); err != nil {
		return nil, err
	}
	if len(page.Versions) == 1 {
		f.Version = page.Versions[0].Status
	}
	if page, err = c.one(ctx, registry.Reconciliations, id); err != nil {
		return nil, err
	}
	f.Uncertain = page.Reconciliations
	f.Retry = c.retryOf(ctx, f)
	return f, nil
}

func (f routeFacts) object() any {
	return inspection{f.Route.Route, routeState(f.Route), f.Route.Attempts, f.Replica, f.Version, f.Uncertain, f.Retry}
}

func (f routeFacts) command() string { return "aipctl route inspect " + f.Route.Route.Action.String() }

func (f routeFacts) lines(now time.Time) []line {
	r := f.Route.Route
	lines := []line{title("Work"),
		field("action", r.Action.String()), field("capability", r.Capability.String()), field("tenant", r.Tenant.String()),
		signed("state", routeState(f.Route), ""), told("on retry", f.Retry.Verdict+": "+f.Retry.Why)}
	lines = append(lines, f.attemptLines(now)...)
	lines = append(lines, f.uncertainLines(now)...)
	lines = append(lines, line{}, title("Target"),
		field("instance", r.Instance.String()),
		line{kind: fieldLine, label: "replica", text: r.Replica.String() + f.replicaNow(), value: r.Replica.String(), open: target{replicaPage, r.Replica.String()}},
		field("endpoint", r.Endpoint), field("region/zone/class", r.Topology.Region+"/"+r.Topology.Zone+"/"+r.Topology.CapacityClass),
		line{}, title("Peer"), field("principal", r.Peer.PrincipalID+" ("+r.Peer.PrincipalKind+")"), field("did", r.Peer.DID),
		field("trust domain", r.Peer.TrustDomain), field("transport", r.Peer.TransportProfile),
		line{}, title("Artifact"), field("version", r.Version.String()), signed("status now", string(f.Version), ""),
		field("manifest", r.ManifestDigest.String()), field("artifact", r.ArtifactDigest.String()),
	)
	return append(lines, decisionLines(r, now)...)
}

// replicaNow says how the pinned replica is doing, on the line that names it.
func (f routeFacts) replicaNow() string {
	if f.Replica == nil {
		return ""
	}
	return "  " + status(string(f.Replica.Live.Status)) + ", " + load(f.Replica) + " reserved"
}

func decisionLines(r fleet.RouteAssignment, now time.Time) []line {
	quota := r.QuotaPolicyRef
	if quota == "" {
		quota = fleet.QuotaFleet
	}
	k := r.OrderingKeys
	return []line{{}, title("Decision"),
		field("catalog revision", strconv.FormatUint(r.CatalogRevision, 10)),
		field("policy revision", strconv.FormatUint(r.BindingPolicyRevision, 10)),
		field("credential", r.CredentialRevisionRef),
		field("quota", fmt.Sprintf("%s revision %d", quota, r.QuotaPolicyRevision)),
		field("ordering keys", fmt.Sprintf("priority %d, region match %v, zone match %v, active before %d", k.Priority, k.RegionMatch, k.ZoneMatch, k.ActiveBefore)),
		field("assigned", r.AssignedAt.UTC().Format(time.RFC3339)+" ("+ago(r.AssignedAt, now)+")")}
}

func (f routeFacts) attemptLines(now time.Time) []line {
	var rows [][]string
	for _, a := range f.Route.Attempts {
		state, code, settled := "reserved", "", "deadline "+until(a.Deadline, now)
		if s := a.Settlement; s != nil {
			state, code, settled = string(s.Outcome), s.Code, ago(s.SettledAt, now)
		}
		if a.Probe {
			code += " (probe)"
		}
		rows = append(rows, []string{strconv.FormatUint(a.Fence.Number, 10), status(state), clean(code), strconv.FormatUint(a.LeaseEpoch, 10), ago(a.ReservedAt, now), settled})
	}
	lines := []line{{}, title(fmt.Sprintf("Attempts (%d)", len(rows)))}
	return append(lines, list([]string{"FENCE", "STATE", "CODE", "EPOCH", "RESERVED", "SETTLED"}, rows, nil)...)
}

func nextProbe(u fleet.Reconciliation, now time.Time) string {
	if u.NextProbeAt.After(now) {
		return "asks again " + until(u.NextProbeAt, now)
	}
	return "to be asked now"
}

func (f routeFacts) uncertainLines(now time.Time) []line {
	if len(f.Uncertain) == 0 {
		return nil
	}
	var rows [][]string
	for _, u := range f.Uncertain {
		next := nextProbe(u, now)
		switch u.State {
		case fleet.ReconcileResolved:
			next = string(u.Resolution) + " by " + u.ResolvedBy
		case fleet.ReconcileOperator:
			next = "an operator decides: aipctl reconcile show " + u.Action.String()
		}
		rows = append(rows, []string{strconv.FormatUint(u.Fence, 10), status(string(u.State)), clean(u.Cause), ago(u.OpenedAt, now),
			many(int(u.ProbeCount), "probe", "probes"), clean(next)})
	}
	lines := []line{{}, title("Uncertain")}
	return append(lines, list([]string{"FENCE", "STATE", "CAUSE", "OPENED", "ASKED", "NOW"}, rows, nil)...)
}
