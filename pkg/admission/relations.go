package admission

import (
	"fmt"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Deployment is deployment.yaml: what is to be published together with the
// release. It is the operator's word, not evidence: whoever admits sees it in the
// plan. A serving version or a replica's version that is left out is this release.
type Deployment struct {
	Quotas    []fleet.QuotaPolicy       `json:"quotas,omitempty"`
	Instances []fleet.ConnectorInstance `json:"instances,omitempty"`
	Replicas  []fleet.Replica           `json:"replicas,omitempty"`
	Bindings  []fleet.CapabilityBinding `json:"bindings,omitempty"`
}

// checkRelations reads deployment.yaml and bounds it. Whether its references hold
// is for the publisher, which sees the registry.
func (e *evaluation) checkRelations() {
	data, ok := e.pkg.files[DeploymentFile]
	if !ok {
		return
	}
	var d Deployment
	if _, err := decodeClosed(data, e.pkg.limits.DeployBytes, &d); err != nil {
		e.found.addError("deployment.malformed", DeploymentFile, "correct the named member", err)
		return
	}
	for _, bound := range []struct {
		name       string
		has, limit int
	}{{"instances", len(d.Instances), MaxInstances}, {"replicas", len(d.Replicas), MaxReplicas}, {"bindings", len(d.Bindings), MaxBindings}} {
		if bound.has > bound.limit {
			e.found.add("deployment.too_large", DeploymentFile+"#"+bound.name, fmt.Sprintf("publish at most %d at once", bound.limit), "there are %d", bound.has)
		}
	}
	id := e.pkg.release.VersionID
	for i := range d.Instances {
		instance := &d.Instances[i]
		if instance.Type != e.pkg.release.Type.ID {
			e.found.add("deployment.other_type", fmt.Sprintf("%s#instances[%d].type_id", DeploymentFile, i), "deploy instances of this release's type", "instance %s is of type %s", instance.ID, instance.Type)
		}
		if len(instance.Serving) == 0 {
			instance.Serving = []fleet.ServingVersion{{Version: id, Weight: 1}}
		}
		for j := range instance.Serving {
			instance.Serving[j].Version = orThis(instance.Serving[j].Version, id)
		}
	}
	for i := range d.Replicas {
		d.Replicas[i].Version = orThis(d.Replicas[i].Version, id)
	}
	e.relations = d
}

func orThis(version, this fleet.VersionID) fleet.VersionID {
	if version.IsZero() {
		return this
	}
	return version
}
