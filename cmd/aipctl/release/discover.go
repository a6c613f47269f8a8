package release

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/pflag"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// Hints that a tool gives in its _meta.
const (
	metaReconcileTool = "aip/reconcile_tool"
	metaIdempotency   = "aip/idempotency"
)

// discovery starts an MCP server once and asks for its tools.
type discovery struct {
	wanted  bool
	name    string // first part of the capability ids
	args    []string
	env     []string
	timeout time.Duration
}

func (d *discovery) bind(f *pflag.FlagSet) {
	f.BoolVar(&d.wanted, "discover", false, "start the artifact, an MCP server, once and write manifest.json from its tools")
	f.StringVar(&d.name, "name", "", "connector `name`: the first part of capability ids (default: what the server calls itself)")
	f.StringArrayVar(&d.args, "arg", nil, "argument for the server while it is discovered; repeatable")
	f.StringArrayVar(&d.env, "env", nil, "`K=V` for the server while it is discovered; repeatable")
	f.DurationVar(&d.timeout, "discover-timeout", 30*time.Second, "how long the server may take")
}

// run starts the package's artifact with a bare environment in an empty directory.
func (d *discovery) run(ctx context.Context, a *app.App, dir string, r admission.Release) (fleet.Manifest, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	scratch, err := os.MkdirTemp("", "aipctl-discover-")
	if err != nil {
		return fleet.Manifest{}, fleet.AsError(err, "release.discover")
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	cmd, err := d.command(ctx, a, dir, r)
	if err != nil {
		return fleet.Manifest{}, err
	}
	cmd.Dir = scratch
	a.Progressf("starting %s once to ask for its tools", r.Artifact.Path)
	// It offers the server nothing, as a host does: a server may list other tools to
	// clients that can do more.
	client := mcp.NewClient(&mcp.Implementation{Name: "aipctl", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd, TerminateDuration: 2 * time.Second}, nil)
	if err != nil {
		return fleet.Manifest{}, discoverError(err)
	}
	tools, err := listTools(ctx, session)
	server := session.InitializeResult().ServerInfo
	closeErr := session.Close()
	if err != nil {
		return fleet.Manifest{}, discoverError(err)
	}
	if closeErr != nil {
		a.Progressf("the server did not end cleanly: %v", closeErr)
	}
	name := d.name
	if name == "" && server != nil {
		name = server.Name
	}
	return manifestOf(name, r.Version, tools)
}

func discoverError(err error) error {
	return fleet.Errorf(fleet.Invalid, "release.discover", "the artifact did not answer as an MCP server over stdio").Caused(err).
		Advise("try --arg and --env, or write manifest.json yourself")
}

func (d *discovery) command(ctx context.Context, a *app.App, dir string, r admission.Release) (*exec.Cmd, error) {
	program, err := filepath.Abs(entrypoint(dir, r.Artifact))
	if err != nil {
		return nil, fleet.AsError(err, "release.discover")
	}
	args := d.args
	if r.Artifact.Interpreter != "" {
		interpreter, err := exec.LookPath(r.Artifact.Interpreter)
		if err != nil {
			return nil, app.Usagef("release.interpreter", "interpreter %s is not in PATH", r.Artifact.Interpreter).Caused(err)
		}
		args = append([]string{program}, args...)
		program = interpreter
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append([]string{"PATH=" + a.Env("PATH"), "HOME=" + a.Env("HOME")}, d.env...)
	cmd.Stderr = a.Err
	return cmd, nil
}

func listTools(ctx context.Context, session *mcp.ClientSession) ([]*mcp.Tool, error) {
	var tools []*mcp.Tool
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		if tools = append(tools, tool); len(tools) > fleet.MaxCapabilities {
			return nil, fleet.Invalidf("release.discover", "the server offers more than %d tools", fleet.MaxCapabilities)
		}
	}
	return tools, nil
}

// manifestOf writes a manifest that claims no more than the tools say: what is
// not said to be harmless counts as destructive, and as not repeatable.
func manifestOf(name, version string, tools []*mcp.Tool) (fleet.Manifest, error) {
	m := fleet.Manifest{AIPVersion: "1.0", Name: name, Version: version}
	names := map[string]bool{}
	for _, t := range tools {
		names[t.Name] = true
	}
	for _, t := range tools {
		definition, implementation, err := capabilityOf(name, t)
		if err != nil {
			return fleet.Manifest{}, err
		}
		if r := implementation.ReconcileTool; r != "" && !names[r] {
			return fleet.Manifest{}, fleet.Invalidf("release.discover", "tool %s names %s to reconcile with, which does not exist", fleet.Printable(t.Name, 80), fleet.Printable(r, 80))
		}
		m.Capabilities = append(m.Capabilities, definition)
		m.Implementations = append(m.Implementations, implementation)
	}
	return m, protocol.ValidateManifest(m)
}

func capabilityOf(connector string, t *mcp.Tool) (fleet.CapabilityDefinition, fleet.Implementation, error) {
	id, err := fleet.ParseCapabilityID(connector + ":" + t.Name)
	if err != nil {
		return fleet.CapabilityDefinition{}, fleet.Implementation{}, err
	}
	effects, risk := effectsOf(t.Annotations)
	idempotency, err := idempotencyOf(t, effects)
	if err != nil {
		return fleet.CapabilityDefinition{}, fleet.Implementation{}, err
	}
	input, err := json.Marshal(t.InputSchema)
	if err != nil {
		return fleet.CapabilityDefinition{}, fleet.Implementation{}, fleet.AsError(err, "release.discover")
	}
	var output json.RawMessage
	if t.OutputSchema != nil {
		if output, err = json.Marshal(t.OutputSchema); err != nil {
			return fleet.CapabilityDefinition{}, fleet.Implementation{}, fleet.AsError(err, "release.discover")
		}
	}
	reconcile, _ := t.Meta[metaReconcileTool].(string)
	return fleet.CapabilityDefinition{
			ID: id, Name: t.Name, Kind: "tool", Description: t.Description, Risk: risk, InputSchema: input, OutputSchema: output,
			Contract: fleet.Contract{SideEffects: effects, Idempotency: idempotency},
		}, fleet.Implementation{
			Capability: id, Adapter: "mcp", Tool: t.Name, ReconcileTool: reconcile, Profiles: []string{"aip.core.v1"},
		}, nil
}

func effectsOf(hints *mcp.ToolAnnotations) (fleet.SideEffects, string) {
	switch {
	case hints != nil && hints.ReadOnlyHint:
		return fleet.EffectRead, "low"
	case hints != nil && hints.DestructiveHint != nil && !*hints.DestructiveHint:
		return fleet.EffectWrite, "medium"
	}
	return fleet.EffectDestructive, "high"
}

func idempotencyOf(t *mcp.Tool, effects fleet.SideEffects) (fleet.Idempotency, error) {
	if said, ok := t.Meta[metaIdempotency]; ok {
		word, _ := said.(string)
		switch claim := fleet.Idempotency(word); claim {
		case fleet.IdempotencyNone, fleet.IdempotencyNatural, fleet.IdempotencyProviderKey:
			return claim, nil
		}
		return "", fleet.Invalidf("release.discover", "tool %s says %s %q, which is not known", fleet.Printable(t.Name, 80), metaIdempotency, fleet.Printable(word, 40))
	}
	if !effects.Mutates() || t.Annotations != nil && t.Annotations.IdempotentHint {
		return fleet.IdempotencyNatural, nil
	}
	return fleet.IdempotencyNone, nil
}
