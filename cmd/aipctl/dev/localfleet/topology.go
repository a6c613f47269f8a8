package localfleet

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/examples/ticketdesk"
)

// The tenants of the example fleet.
const (
	Acme   = "acme"
	Globex = "globex"
)

// Tenants lists them.
func Tenants() []string { return []string{Acme, Globex} }

// Bounds of the number of hosts.
const (
	MinHosts = 3
	MaxHosts = 12
)

// Host is one replica of the fleet and the process that serves it.
type Host struct {
	Replica  string
	Instance string
	Tenant   string
	Zone     string
	Port     int
}

// hosts lays out n hosts: those of the example file first (two of acme, one of
// globex), then one more for globex and acme in turn.
func hosts(n int, ports Ports) []Host {
	all := make([]Host, n)
	count := map[string]int{}
	for i := range all {
		tenant := Acme
		if i >= 2 && i%2 == 0 {
			tenant = Globex
		}
		letter := string(rune('a' + count[tenant]))
		zone := "eu-1a"
		if count[tenant]%2 == 1 {
			zone = "eu-1b"
		}
		count[tenant]++
		all[i] = Host{
			Replica: fmt.Sprintf("crepl_%s_desk_%s", tenant, letter), Instance: fmt.Sprintf("cinst_%s_desk", tenant),
			Tenant: tenant, Zone: zone, Port: ports.Hosts[i],
		}
	}
	return all
}

// Identities of the example's release.
const (
	versionID  = "cver_ticketdesk_1.0.0"
	credential = "rev-1"
)

// renderFleet completes the example's fleet file: endpoints and identities of the
// hosts, which no file can know before they are chosen.
func renderFleet(all []Host, did func(replica string) (string, error)) ([]byte, error) {
	var file map[string]any
	if err := yaml.Unmarshal(ticketdesk.Fleet(), &file); err != nil {
		return nil, unavailable("dev.fleet_file", "the example's fleet file cannot be read", err)
	}
	replicas := make([]any, len(all))
	for i, h := range all {
		identity, err := did(h.Replica)
		if err != nil {
			return nil, err
		}
		replicas[i] = fleetReplica(h, identity)
	}
	file["replicas"] = replicas
	text, err := yaml.Marshal(file)
	if err != nil {
		return nil, unavailable("dev.fleet_file", "the fleet file cannot be written", err)
	}
	return append([]byte("# Written by aipctl dev from examples/ticketdesk/fleet.yaml.\n"), text...), nil
}

// fleetReplica is the written form of one replica.
func fleetReplica(h Host, did string) map[string]any {
	return map[string]any{
		"id": h.Replica, "instance_id": h.Instance, "version_id": versionID, "endpoint": url(h.Port), "capacity": Capacity,
		"peer": map[string]any{
			"principal_id": "host." + h.Replica, "principal_kind": "service", "did": did,
			"trust_domain": "dev.local", "transport_profile": "aip-http/1",
		},
		"topology": map[string]any{"region": "eu-1", "zone": h.Zone, "capacity_class": "standard"},
	}
}

// Capacity of every host, in actions at once.
const Capacity = 8
