package catalog

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// version accepts a new version from admission, or one that is published already and
// does not differ but in its status, which only a transition moves (G34).
func (c *checker) version(v fleet.ConnectorVersion) (verdict, error) {
	id := v.ID.String()
	if old, ok := c.world.Versions[v.ID]; ok {
		v.Status, v.StatusBefore = old.Status, old.StatusBefore
		if d, differs := differ("versions", id, normal(old), normal(v)); differs {
			return verdict{}, fixed("version", id, d.Fields[0].Path)
		}
		return verdict{id: id, same: true}, nil
	}
	t, ok := pick(v.Type, c.types, c.world.Types)
	switch {
	case !ok:
		return verdict{}, missing("version", id, "type "+v.Type.String())
	case !t.Enabled:
		return verdict{}, fleet.Errorf(fleet.NotAdmitted, "publish.type_disabled", "type %s is disabled and admits nothing", t.ID)
	case v.Status != fleet.VersionAdmitted && v.Status != fleet.VersionActive:
		return verdict{}, fleet.Errorf(fleet.Conflict, "publish.version_status", "version %s begins as admitted or active, not as %s", id, v.Status)
	case v.Status == fleet.VersionActive && !v.Attestation.Qualified:
		return verdict{}, fleet.Errorf(fleet.NotAdmitted, "publish.not_qualified", "version %s is not qualified", id)
	}
	return verdict{id: id}, c.unlike(v)
}

// unlike compares a new version with every one that it must not contradict, in a
// fixed order so that the same refusal comes every time.
func (c *checker) unlike(v fleet.ConnectorVersion) error {
	others := make([]fleet.ConnectorVersion, 0, len(c.world.Versions)+len(c.versions))
	for _, o := range c.world.Versions {
		others = append(others, o)
	}
	for _, o := range c.versions {
		if o.ReleaseSequence <= v.ReleaseSequence {
			others = append(others, o)
		}
	}
	slices.SortFunc(others, func(a, b fleet.ConnectorVersion) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	for _, o := range others {
		if err := contradicts(v, o); o.ID != v.ID && err != nil {
			return err
		}
	}
	return nil
}

func contradicts(v, o fleet.ConnectorVersion) error {
	sibling := o.Type == v.Type
	switch {
	case o.ArtifactDigest == v.ArtifactDigest:
		return fleet.Errorf(fleet.Conflict, "publish.artifact", "the artifact of version %s was admitted as %s already", v.ID, o.ID)
	case sibling && o.Version == v.Version:
		return fleet.Errorf(fleet.Conflict, "publish.version_text", "version text %q of type %s is taken by %s", fleet.Printable(v.Version, 128), v.Type, o.ID)
	case sibling && o.ReleaseSequence >= v.ReleaseSequence && !rollback(v, o):
		return fleet.Errorf(fleet.Conflict, "publish.release_sequence", "release sequence %d of version %s does not grow: %s has %d", v.ReleaseSequence, v.ID, o.ID, o.ReleaseSequence)
	case o.Status == fleet.VersionRevoked:
		return nil
	}
	for _, d := range v.Manifest.Capabilities {
		if earlier, ok := o.Manifest.Capability(d.ID); ok {
			if why := Incompatible(earlier, d); why != "" {
				return fleet.Errorf(fleet.Conflict, "publish.incompatible", "capability %s of version %s is not compatible with %s", d.ID, v.ID, o.ID).
					Because("%s", why).Advise("offer it under another capability id")
			}
		}
	}
	return nil
}

// rollback reports whether approvers let v follow the newer o. An equal sequence is
// never another release.
func rollback(v, o fleet.ConnectorVersion) bool {
	return o.ReleaseSequence > v.ReleaseSequence && v.Attestation.RollbackFrom >= o.ReleaseSequence
}

// normal compacts what a store may write differently: raw JSON and times.
func normal(v fleet.ConnectorVersion) any {
	v.AdmittedAt = v.AdmittedAt.UTC().Truncate(time.Microsecond)
	raw, err := json.Marshal(v)
	if err != nil {
		return v
	}
	return decode(raw)
}
