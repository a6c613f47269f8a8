package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/client"
	"github.com/aipfleet/aipfleet/pkg/connector/mcp"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// room is the capacity of each replica and the bound of each tenant: more than there
// are clients, so that the way is measured and not a queue.
const room = 512

// site is the fleet and the connector beside it.
type site struct {
	fleet      *localfleet.Fleet
	client     *client.Client
	connector  *mcp.Adapter
	capability fleet.CapabilityID
}

func setUp(ctx context.Context, dir, bin string) (*site, error) {
	programs, err := localfleet.FindPrograms(filepath.Join(bin, "aipctl"))
	if err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	options := localfleet.Options{Dir: filepath.Join(dir, "fleet"), Programs: programs, Now: time.Now, Idle: true}
	s := &site{}
	if s.fleet, err = localfleet.Up(starting, options); err != nil {
		return s, err
	}
	if err := s.widen(starting); err != nil {
		return s, err
	}
	for _, row := range s.fleet.Status() {
		if err := s.fleet.Start(starting, row.Name); err != nil {
			return s, err
		}
	}
	if s.client, err = s.fleet.Client(localfleet.Acme); err != nil {
		return s, err
	}
	if s.capability, err = fleet.ParseCapabilityID(localfleet.Connector + ":" + desk.OpenTicketTool); err != nil {
		return s, err
	}
	return s, s.direct(starting, dir, bin)
}

// widen gives the replicas, their hosts and aipd room for every client.
func (s *site) widen(ctx context.Context) error {
	place := s.fleet.Place()
	err := edit(place.FleetFile(), func(c map[string]any) {
		for _, r := range list(c["replicas"]) {
			r["capacity"] = room
		}
		for _, q := range list(c["quotas"]) {
			q["revision"], q["instance"], q["binding"], q["tenant"] = 2, 2*room, 2*room, 2*room
		}
	})
	for _, h := range s.fleet.Hosts() {
		err = errors.Join(err, edit(place.Config(h.Replica+".yaml"), func(c map[string]any) { c["capacity"] = room }))
	}
	err = errors.Join(err, edit(place.Config("serve.yaml"), func(c map[string]any) {
		c["fairness"] = map[string]any{"in_flight_tenant": room, "queued_tenant": 4 * room}
	}))
	if err != nil {
		return err
	}
	result, err := s.fleet.Aipctl(ctx, "apply", "-f", place.FleetFile(), "--yes", "--reason", "room for the benchmark")
	if err != nil {
		return err
	}
	return result.Failed(0)
}

func list(v any) []map[string]any {
	var out []map[string]any
	items, _ := v.([]any)
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

func edit(path string, change func(map[string]any)) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var c map[string]any
	if err := yaml.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	change(c)
	if text, err = yaml.Marshal(c); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// direct starts the same program as a connector of its own, with a desk of its own.
func (s *site) direct(ctx context.Context, dir, bin string) error {
	text, err := os.ReadFile(filepath.Join(s.fleet.Place().Release(), "manifest.json"))
	if err != nil {
		return err
	}
	manifest, _, err := protocol.ReadManifest(text)
	if err != nil {
		return err
	}
	program := filepath.Join(bin, "ticketdesk")
	work := filepath.Join(dir, "direct")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	s.connector = mcp.New(mcp.Config{
		Program:  func(context.Context) (mcp.Program, error) { return mcp.Program{Path: program, Dir: work}, nil },
		Env:      []string{"TICKETDESK_DIR=" + work, "TICKETDESK_ACCOUNT=direct", "TICKETDESK_TOKEN=direct"},
		Manifest: manifest, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	s.connector.Start()
	return s.connector.AwaitHealthy(ctx)
}

func (s *site) tearDown() error {
	if s.connector != nil {
		s.connector.Close()
	}
	if s.fleet == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return s.fleet.Purge(ctx)
}
