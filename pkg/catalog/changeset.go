package catalog

import (
	"slices"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Limits of one change set.
const (
	MaxInstances = 10_000
	MaxReplicas  = 50_000
	MaxBindings  = 100_000
)

// Set is the records of one change set.
type Set struct {
	Quotas    []fleet.QuotaPolicy
	Types     []fleet.ConnectorType
	Versions  []fleet.ConnectorVersion
	Instances []fleet.ConnectorInstance
	Replicas  []fleet.Replica
	Bindings  []fleet.CapabilityBinding
}

// World is what is published already. It must hold at least every record that the
// set names by id or refers to; and, when the set brings a version, every version of
// its type, every one that defines a capability that it defines, and the one with its
// artifact. It is only read.
type World struct {
	Quotas    map[string]fleet.QuotaPolicy
	Types     map[fleet.TypeID]fleet.ConnectorType
	Versions  map[fleet.VersionID]fleet.ConnectorVersion
	Instances map[fleet.InstanceID]fleet.ConnectorInstance
	Replicas  map[fleet.ReplicaID]fleet.Replica
	Bindings  map[fleet.BindingKey]fleet.CapabilityBinding
	Active    map[fleet.ReplicaID]uint32 // reservations in flight
}

// Result is what an accepted change set writes: only what differs, in the order of
// the set.
type Result struct {
	Set
	Differences []Difference
}

// Check validates a whole change set against the world and returns what it would
// write. The first rule that refuses names itself; nothing is repaired. Records that
// are published already and do not differ are left out. Empty topology labels get
// their defaults.
func Check(w World, s Set) (Result, error) {
	if err := limits(s); err != nil {
		return Result{}, err
	}
	s.Replicas = slices.Clone(s.Replicas)
	for i := range s.Replicas {
		s.Replicas[i].Topology = s.Replicas[i].Topology.WithDefaults()
	}
	c := checker{world: w, quotas: index(s.Quotas, func(q fleet.QuotaPolicy) string { return q.Ref })}
	c.types = index(s.Types, func(t fleet.ConnectorType) fleet.TypeID { return t.ID })
	c.versions = index(s.Versions, func(v fleet.ConnectorVersion) fleet.VersionID { return v.ID })
	c.instances = index(s.Instances, func(i fleet.ConnectorInstance) fleet.InstanceID { return i.ID })
	for _, stage := range []func() error{
		func() (err error) { c.out.Quotas, err = each(&c, "quotas", s.Quotas, c.quota); return },
		func() (err error) { c.out.Types, err = each(&c, "types", s.Types, c.typ); return },
		func() (err error) { c.out.Versions, err = each(&c, "versions", s.Versions, c.version); return },
		func() (err error) { c.out.Instances, err = each(&c, "instances", s.Instances, c.instance); return },
		func() (err error) { c.out.Replicas, err = each(&c, "replicas", s.Replicas, c.replica); return },
		func() (err error) { c.out.Bindings, err = each(&c, "bindings", s.Bindings, c.binding); return },
	} {
		if err := stage(); err != nil {
			return Result{}, err
		}
	}
	return c.out, nil
}

func limits(s Set) error {
	for _, l := range []struct {
		noun       string
		have, most int
	}{{"instances", len(s.Instances), MaxInstances}, {"replicas", len(s.Replicas), MaxReplicas}, {"bindings", len(s.Bindings), MaxBindings}} {
		if l.have > l.most {
			return fleet.Invalidf("publish.limit", "a change set has at most %d %s, this one %d", l.most, l.noun, l.have).
				Advise("split it")
		}
	}
	return nil
}

type checker struct {
	world     World
	quotas    map[string]fleet.QuotaPolicy
	types     map[fleet.TypeID]fleet.ConnectorType
	versions  map[fleet.VersionID]fleet.ConnectorVersion
	instances map[fleet.InstanceID]fleet.ConnectorInstance
	out       Result
}

func index[K comparable, V any](list []V, key func(V) K) map[K]V {
	m := make(map[K]V, len(list))
	for _, v := range list {
		m[key(v)] = v
	}
	return m
}

// verdict is what one record's rule found: its id, and the record before, nil when
// it is new; same when the rule knows that it does not differ.
type verdict struct {
	id     string
	before any
	same   bool
}

type record interface{ Validate() error }

// each judges the records of one noun and keeps those that differ.
func each[T record](c *checker, noun string, list []T, rule func(T) (verdict, error)) ([]T, error) {
	var changed []T
	seen := make(map[string]bool, len(list))
	for _, r := range list {
		if err := r.Validate(); err != nil {
			return nil, err
		}
		v, err := rule(r)
		if err != nil {
			return nil, err
		}
		if seen[v.id] {
			return nil, fleet.Invalidf("publish.twice", "%s %s is in the change set twice", noun, fleet.Printable(v.id, 256))
		}
		seen[v.id] = true
		if v.same {
			continue
		}
		if d, differs := differ(noun, v.id, v.before, r); differs {
			changed = append(changed, r)
			c.out.Differences = append(c.out.Differences, d)
		}
	}
	return changed, nil
}

func pick[K comparable, V any](key K, set, world map[K]V) (V, bool) {
	if v, ok := set[key]; ok {
		return v, true
	}
	v, ok := world[key]
	return v, ok
}

func known[V any](v V, ok bool) any {
	if !ok {
		return nil
	}
	return v
}
