package tui

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// heldShown bounds the reservations that a replica's page lists.
const heldShown = 200

// replicaFacts is one replica with what it holds.
type replicaFacts struct {
	Record    registry.ReplicaRecord `json:"record"`
	Held      []registry.RouteRecord `json:"reserved"`
	Uncertain []fleet.Reconciliation `json:"uncertain"`
	cut       bool
}

func (c Config) readReplica(ctx context.Context, id string) (facts, error) {
	page, err := c.one(ctx, registry.Replicas, id)
	if err != nil {
		return nil, err
	}
	if len(page.Replicas) == 0 {
		return absent{target{replicaPage, id}, "replica " + id}, nil
	}
	f := replicaFacts{Record: page.Replicas[0]}
	held, err := c.Reader.List(ctx, registry.Selection{Noun: registry.Routes, Replica: f.Record.ID, Reserved: true, Limit: heldShown})
	if err != nil {
		return nil, err
	}
	for _, r := range held.Routes {
		f.Held = append(f.Held, veiled(r))
	}
	f.cut = held.Next != ""
	for _, state := range []fleet.ReconciliationState{fleet.ReconcileOpen, fleet.ReconcileOperator} {
		asked, err := c.Reader.List(ctx, registry.Selection{Noun: registry.Reconciliations, Replica: f.Record.ID, State: string(state), Limit: heldShown})
		if err != nil {
			return nil, err
		}
		f.Uncertain = append(f.Uncertain, asked.Reconciliations...)
	}
	return f, nil
}

func (f replicaFacts) object() any     { return f }
func (f replicaFacts) command() string { return "aipctl describe replica " + f.Record.ID.String() }

func (f replicaFacts) lines(now time.Time) []line {
	r, l := &f.Record, f.Record.Live
	lines := []line{title("Now"), signed("status", string(l.Status), ""), signed("intent", string(l.Intent), f.drainText(now))}
	if h := health(r); h != "" {
		lines = append(lines, signed("health", h, beats(l.NotReadyBeats)))
	}
	lines = append(lines,
		field("lease", until(l.LeaseExpiresAt, now)),
		field("last beat", ago(l.LastBeatAt, now)),
		field("epoch, sequence", fmt.Sprintf("%d, %d", l.LeaseEpoch, l.LeaseSequence)),
		field("reservations", fmt.Sprintf("%d of %d; the host says %d in flight", l.Active, r.Capacity, l.InFlight)),
		signed("circuit", circuit(r), circuitText(l.Circuit, now)),
	)
	lines = append(lines, f.heldLines(now)...)
	lines = append(lines, f.uncertainLines(now)...)
	return append(lines, declaredLines(r)...)
}

// drainText says whether it is drained, from what is observed (G37).
func (f replicaFacts) drainText(now time.Time) string {
	switch {
	case !leaving(&f.Record):
		return ""
	case drained(&f.Record, now) && len(f.Held) == 0:
		return "(drained)"
	case f.Record.Live.Active > 0:
		return "(waits for " + many(int(f.Record.Live.Active), "reservation", "reservations") + ")"
	}
	return "(its host has not said yet that it takes no work)"
}

func beats(n uint32) string {
	if n == 0 {
		return ""
	}
	return "(" + many(int(n), "beat", "beats") + " not ready)"
}

func ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return since(t, now) + " ago"
}

func circuitText(c fleet.Circuit, now time.Time) string {
	switch c.State {
	case fleet.CircuitOpen:
		return fmt.Sprintf("(may be tried %s, opening %d)", until(c.OpenUntil, now), c.Openings)
	case fleet.CircuitHalfOpen:
		return fmt.Sprintf("(%s out)", many(int(c.ProbesOut), "probe", "probes"))
	}
	if c.ConsecutiveUnknowns > 0 {
		return fmt.Sprintf("(%s in a row)", many(int(c.ConsecutiveUnknowns), "unknown", "unknowns"))
	}
	return ""
}

func (f replicaFacts) heldLines(now time.Time) []line {
	head := title(fmt.Sprintf("Reserved routes (%d)", len(f.Held)))
	if f.cut {
		head = title(fmt.Sprintf("Reserved routes (the first %d)", len(f.Held)))
	}
	lines := []line{{}, head}
	if len(f.Held) == 0 {
		return append(lines, line{text: "none"})
	}
	var rows [][]string
	for _, r := range f.Held {
		a := r.Current()
		rows = append(rows, []string{r.Route.Action.String(), clean(r.Route.Capability.String()), strconv.FormatUint(a.Fence.Number, 10),
			since(a.ReservedAt, now), until(a.Deadline, now)})
	}
	return append(lines, list([]string{"ACTION", "CAPABILITY", "FENCE", "HELD", "DEADLINE"}, rows,
		func(i int) target { return target{routePage, f.Held[i].Route.Action.String()} })...)
}

func (f replicaFacts) uncertainLines(now time.Time) []line {
	if len(f.Uncertain) == 0 {
		return nil
	}
	var rows [][]string
	for _, u := range f.Uncertain {
		rows = append(rows, []string{u.Action.String(), strconv.FormatUint(u.Fence, 10), status(string(u.State)), clean(u.Cause), since(u.OpenedAt, now)})
	}
	lines := []line{{}, title(fmt.Sprintf("Uncertain (%d)", len(rows)))}
	return append(lines, list([]string{"ACTION", "FENCE", "STATE", "CAUSE", "AGE"}, rows,
		func(i int) target { return target{routePage, f.Uncertain[i].Action.String()} })...)
}

func declaredLines(r *registry.ReplicaRecord) []line {
	return []line{
		{}, title("Declared"),
		field("replica", r.ID.String()), field("tenant", r.Tenant.String()), field("instance", r.Instance.String()),
		field("version", r.Version.String()), field("endpoint", r.Endpoint),
		field("region/zone/class", r.Topology.Region+"/"+r.Topology.Zone+"/"+r.Topology.CapacityClass),
		field("peer", r.Peer.PrincipalID+" ("+r.Peer.PrincipalKind+")"), field("did", r.Peer.DID),
		field("trust domain", r.Peer.TrustDomain), field("transport", r.Peer.TransportProfile),
		field("journal", r.Live.Journal.String()),
	}
}
