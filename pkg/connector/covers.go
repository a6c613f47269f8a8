package connector

import (
	"encoding/json"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// CodeManifest is the code of a connector whose tools are not those that were admitted.
const CodeManifest = "connector.manifest"

// Covers refuses a connector whose tools are not those that were admitted, and names
// the first that differs (G34). Tools that the manifest does not mention are not
// reachable and not compared.
func Covers(m fleet.Manifest, offers []Offer) error {
	byTool := make(map[string]json.RawMessage, len(offers))
	for _, o := range offers {
		byTool[o.Tool] = o.InputSchema
	}
	for _, i := range m.Implementations {
		for _, tool := range []string{i.Tool, i.ReconcileTool, i.PlanTool, i.CompensateTool} {
			if _, offered := byTool[tool]; tool != "" && !offered {
				return differs(tool, "the connector does not offer it")
			}
		}
		admitted, _ := m.Capability(i.Capability)
		same, err := sameJSON(byTool[i.Tool], admitted.InputSchema)
		if err != nil {
			return differs(i.Tool, "its input schema cannot be compared: "+err.Error())
		}
		if !same {
			return differs(i.Tool, "its input schema is another one")
		}
	}
	return nil
}

func differs(tool, why string) error {
	e := fleet.Errorf(fleet.NotAdmitted, CodeManifest, "tool %s is not as it was admitted", fleet.Printable(tool, 200))
	return e.Because("%s", why).Advise("run the release whose manifest was admitted, or admit this one")
}

// sameJSON compares canonical forms.
func sameJSON(x, y json.RawMessage) (bool, error) {
	a, err := envelope.CanonicalOf(x)
	if err != nil {
		return false, err
	}
	b, err := envelope.CanonicalOf(y)
	return string(a) == string(b), err
}
