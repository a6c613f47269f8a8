package tui

import (
	"strconv"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// replicaColumns is the replicas screen. The names are those of aipctl get replicas.
func replicaColumns() []column[registry.ReplicaRecord] {
	type r = registry.ReplicaRecord
	return []column[r]{
		{name: "id", title: "REPLICA", width: 40, floor: 18, ident: true, text: replicaKey},
		{name: "status", title: "STATUS", width: 13, sign: true, text: func(x *r) string { return string(x.Live.Status) }},
		{name: "health", title: "HEALTH", width: 11, rank: 6, sign: true, text: health},
		{name: "intent", title: "INTENT", width: 6, rank: 4, text: func(x *r) string { return string(x.Live.Intent) }},
		{name: "lease", title: "LEASE", width: 11, rank: 1, ahead: true, at: func(x *r) time.Time { return x.Live.LeaseExpiresAt }},
		{name: "active", title: "ACTIVE", width: 6, right: true, text: load, count: func(x *r) float64 { return float64(x.Live.Active) }},
		{name: "circuit", title: "CIRCUIT", width: 14, rank: 2, sign: true, text: circuit},
		{name: "zone", title: "ZONE", width: 12, rank: 5, text: func(x *r) string { return x.Topology.Zone }},
		{name: "tenant", title: "TENANT", width: 20, floor: 8, rank: 3, text: func(x *r) string { return x.Tenant.String() }},
		{name: "instance", title: "INSTANCE", width: 40, floor: 14, rank: 7, ident: true, text: func(x *r) string { return x.Instance.String() }},
		{name: "beat", title: "BEAT", width: 6, rank: 8, at: func(x *r) time.Time { return x.Live.LastBeatAt }},
		{name: "version", title: "VERSION", width: 40, floor: 14, rank: 9, ident: true, text: func(x *r) string { return x.Version.String() }},
		{name: "region", title: "REGION", width: 12, rank: 10, text: func(x *r) string { return x.Topology.Region }},
		{name: "epoch", title: "EPOCH", width: 6, rank: 11, right: true,
			text: func(x *r) string { return strconv.FormatUint(x.Live.LeaseEpoch, 10) }, count: func(x *r) float64 { return float64(x.Live.LeaseEpoch) }},
		{name: "class", title: "CLASS", width: 10, rank: 12, text: func(x *r) string { return x.Topology.CapacityClass }},
		{name: "capacity", text: func(x *r) string { return strconv.Itoa(int(x.Capacity)) }, count: func(x *r) float64 { return float64(x.Capacity) }},
		{name: "drain", text: draining},
		{name: "endpoint", text: func(x *r) string { return x.Endpoint }},
		{name: "peer", text: func(x *r) string { return x.Peer.DID }},
	}
}

func replicaKey(x *registry.ReplicaRecord) string { return x.ID.String() }

func load(x *registry.ReplicaRecord) string {
	return strconv.Itoa(int(x.Live.Active)) + "/" + strconv.Itoa(int(x.Capacity))
}

// draining says whether a replica is on its way out, by intent or by its host.
func draining(x *registry.ReplicaRecord) string {
	if leaving(x) {
		return "yes"
	}
	return "no"
}

func health(x *registry.ReplicaRecord) string {
	switch {
	case x.Live.Status == fleet.ReplicaOffline, x.Live.Status == fleet.ReplicaRetired:
		return ""
	case x.Live.Healthy:
		return "healthy"
	}
	return "unhealthy"
}

func circuit(x *registry.ReplicaRecord) string {
	if x.Live.Circuit.State == fleet.CircuitOpen {
		return "circuit_open"
	}
	return string(x.Live.Circuit.State)
}

// replicaSelection asks the registry for what the filter names exactly. It matters
// only where there are more replicas than are read.
func replicaSelection(f filter, fields []string) registry.Selection {
	s := registry.Selection{Noun: registry.Replicas, State: f.exact(fields, "status")}
	narrowIDs(&s, f, fields)
	return s
}

// narrowIDs takes over the identities that a filter names exactly; what does not
// parse is left to the filter, which finds nothing.
func narrowIDs(s *registry.Selection, f filter, fields []string) {
	if id, err := fleet.ParseTenantID(f.exact(fields, "tenant")); err == nil {
		s.Tenant = id
	}
	if id, err := fleet.ParseInstanceID(f.exact(fields, "instance")); err == nil {
		s.Instance = id
	}
	if id, err := fleet.ParseVersionID(f.exact(fields, "version")); err == nil {
		s.Version = id
	}
	if id, err := fleet.ParseReplicaID(f.exact(fields, "replica")); err == nil {
		s.Replica = id
	}
}
