package mcp

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/pkg/connector"
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
func (a *Adapter) compare(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Patience)
	defer cancel()
	offers, err := l.offers(ctx)
	if err != nil {
		return err
	}
	return connector.Covers(a.cfg.Manifest, offers)
}
