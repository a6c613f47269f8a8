package catalog

import (
	"reflect"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

func missing(noun, id, what string) error {
	return fleet.Errorf(fleet.Conflict, "publish.reference", "%s %s refers to %s, which is not published", noun, fleet.Printable(id, 256), what)
}

func fixed(noun, id, field string) error {
	return fleet.Errorf(fleet.Conflict, "publish.identity", "%s of %s %s never changes", field, noun, id).
		Advise("publish another %s", noun)
}

func mustGrow(noun, id, field string, from, to uint64) error {
	return fleet.Errorf(fleet.Conflict, "publish.stale_revision", "%s of %s %s must grow: published is %d, given %d", field, noun, fleet.Printable(id, 256), from, to)
}

func (c *checker) quota(q fleet.QuotaPolicy) (verdict, error) {
	old, ok := c.world.Quotas[q.Ref]
	if ok && !reflect.DeepEqual(old, q) && q.Revision <= old.Revision {
		return verdict{}, mustGrow("quota", q.Ref, "revision", old.Revision, q.Revision)
	}
	return verdict{id: q.Ref, before: known(old, ok)}, nil
}

func (c *checker) typ(t fleet.ConnectorType) (verdict, error) {
	old, ok := c.world.Types[t.ID]
	switch {
	case ok && old.Name != t.Name:
		return verdict{}, fixed("type", t.ID.String(), "name")
	case ok && old.Owner != t.Owner:
		return verdict{}, fixed("type", t.ID.String(), "owner")
	}
	return verdict{id: t.ID.String(), before: known(old, ok)}, nil
}

func (c *checker) instance(i fleet.ConnectorInstance) (verdict, error) {
	id := i.ID.String()
	if _, ok := pick(i.Type, c.types, c.world.Types); !ok {
		return verdict{}, missing("instance", id, "type "+i.Type.String())
	}
	old, ok := c.world.Instances[i.ID]
	switch {
	case ok && old.Tenant != i.Tenant:
		return verdict{}, fixed("instance", id, "tenant")
	case ok && old.Type != i.Type:
		return verdict{}, fixed("instance", id, "type")
	case ok && !reflect.DeepEqual(old, i) && i.ConfigRevision <= old.ConfigRevision:
		return verdict{}, mustGrow("instance", id, "config_revision", old.ConfigRevision, i.ConfigRevision)
	}
	for _, s := range i.Serving {
		if err := c.serving(i, old, s.Version); err != nil {
			return verdict{}, err
		}
	}
	return verdict{id: id, before: known(old, ok)}, nil
}

// serving lets an instance newly list only versions that are admitted or active;
// what it lists already it may keep listing, so that a cut-over strands nothing.
func (c *checker) serving(i, old fleet.ConnectorInstance, id fleet.VersionID) error {
	v, ok := pick(id, c.world.Versions, c.versions)
	switch {
	case !ok:
		return missing("instance", i.ID.String(), "version "+id.String())
	case v.Type != i.Type:
		return fleet.Errorf(fleet.Conflict, "publish.type", "instance %s serves version %s of another type", i.ID, id)
	case v.Status == fleet.VersionAdmitted || v.Status == fleet.VersionActive || Lists(old, id):
		return nil
	}
	return fleet.Errorf(fleet.NotAdmitted, "publish.version_status", "instance %s may not begin to serve version %s, which is %s", i.ID, id, v.Status)
}

func (c *checker) replica(r fleet.Replica) (verdict, error) {
	id := r.ID.String()
	i, ok := pick(r.Instance, c.instances, c.world.Instances)
	if !ok {
		return verdict{}, missing("replica", id, "instance "+r.Instance.String())
	}
	if _, ok := pick(r.Version, c.world.Versions, c.versions); !ok {
		return verdict{}, missing("replica", id, "version "+r.Version.String())
	}
	old, ok := c.world.Replicas[r.ID]
	if !ok && !Lists(i, r.Version) {
		return verdict{}, fleet.Errorf(fleet.Conflict, "publish.not_serving", "replica %s runs version %s, which instance %s does not serve", id, r.Version, i.ID)
	}
	if ok {
		if field := identityChange(old, r); field != "" {
			return verdict{}, fixed("replica", id, field)
		}
		if active := c.world.Active[r.ID]; r.Capacity < active {
			return verdict{}, fleet.Errorf(fleet.Conflict, "publish.capacity", "capacity %d of replica %s is below the %d in flight", r.Capacity, id, active).
				Advise("drain it first, or choose %d or more", active)
		}
	}
	return verdict{id: id, before: known(old, ok)}, nil
}

// identityChange names the first field that differs, capacity aside.
func identityChange(old, r fleet.Replica) string {
	r.Capacity = old.Capacity
	a, b := reflect.ValueOf(old), reflect.ValueOf(r)
	for i := range a.NumField() {
		if a.Field(i).Interface() != b.Field(i).Interface() {
			return a.Type().Field(i).Tag.Get("json")
		}
	}
	return ""
}

func (c *checker) binding(b fleet.CapabilityBinding) (verdict, error) {
	id := BindingID(b.BindingKey)
	i, ok := pick(b.Instance, c.instances, c.world.Instances)
	if !ok || i.Tenant != b.Tenant {
		// The same answer for both: an instance of another tenant does not exist here (G18).
		return verdict{}, missing("binding", id, "instance "+b.Instance.String()+" of the tenant")
	}
	if !c.implemented(i, b.Capability) {
		return verdict{}, fleet.Errorf(fleet.Conflict, "publish.capability", "no version that instance %s serves implements %s", i.ID, b.Capability)
	}
	if b.QuotaPolicyRef != "" {
		_, preset := fleet.PresetQuota(b.QuotaPolicyRef)
		if _, ok := pick(b.QuotaPolicyRef, c.quotas, c.world.Quotas); !ok && !preset {
			return verdict{}, missing("binding", id, "quota policy "+b.QuotaPolicyRef)
		}
	}
	old, ok := c.world.Bindings[b.BindingKey]
	if ok && old != b && b.PolicyRevision <= old.PolicyRevision {
		return verdict{}, mustGrow("binding", id, "policy_revision", old.PolicyRevision, b.PolicyRevision)
	}
	return verdict{id: id, before: known(old, ok)}, nil
}

func (c *checker) implemented(i fleet.ConnectorInstance, id fleet.CapabilityID) bool {
	for _, s := range i.Serving {
		if v, ok := pick(s.Version, c.world.Versions, c.versions); ok && Implements(v, id) {
			return true
		}
	}
	return false
}

// BindingID writes a binding's key as one text: "tenant|capability|instance".
func BindingID(k fleet.BindingKey) string {
	return k.Tenant.String() + "|" + k.Capability.String() + "|" + k.Instance.String()
}
