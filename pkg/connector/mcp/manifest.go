package mcp

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

func offerOf(tool *sdk.Tool) (connector.Offer, error) {
	schema, err := json.Marshal(tool.InputSchema)
	if err != nil {
		return connector.Offer{}, fleet.Errorf(fleet.NotAdmitted, CodeManifest, "the schema of tool %s cannot be read", fleet.Printable(tool.Name, 200)).Caused(err)
	}
	return connector.Offer{Tool: tool.Name, InputSchema: schema}, nil
}

// compare refuses a server whose tools are not those that were admitted (G34).
// Tools that the manifest does not mention are not reachable and not compared.
func (a *Adapter) compare(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Patience)
	defer cancel()
	offers, err := l.offers(ctx)
	if err != nil {
		return err
	}
	byTool := make(map[string]json.RawMessage, len(offers))
	for _, o := range offers {
		byTool[o.Tool] = o.InputSchema
	}
	for _, i := range a.cfg.Manifest.Implementations {
		capability, _ := a.cfg.Manifest.Capability(i.Capability)
		if err := compareTool(i, capability, byTool); err != nil {
			return err
		}
	}
	return nil
}

func compareTool(i fleet.Implementation, admitted fleet.CapabilityDefinition, byTool map[string]json.RawMessage) error {
	schema, offered := byTool[i.Tool]
	if !offered {
		return differs(i.Tool, "the connector does not offer it")
	}
	for _, beside := range []string{i.ReconcileTool, i.PlanTool, i.CompensateTool} {
		if _, offered := byTool[beside]; beside != "" && !offered {
			return differs(beside, "the connector does not offer it")
		}
	}
	same, err := sameJSON(schema, admitted.InputSchema)
	if err != nil {
		return differs(i.Tool, "its input schema cannot be compared: "+err.Error())
	}
	if !same {
		return differs(i.Tool, "its input schema is another one")
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
