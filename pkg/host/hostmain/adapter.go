package hostmain

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/connector/exec"
	"github.com/aipfleet/aipfleet/pkg/connector/http"
	"github.com/aipfleet/aipfleet/pkg/connector/mcp"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
)

// life is what a connector needs besides its calls.
type life interface {
	Start()
	AwaitHealthy(ctx context.Context) error
	Renew() // credentials changed
	Close()
}

// steady is the life of a connector that is up as soon as it is made.
type steady struct{ of connector.Connector }

func (steady) Start()                                   {}
func (steady) Renew()                                   {}
func (s steady) AwaitHealthy(ctx context.Context) error { return s.of.Health(ctx) }
func (s steady) Close() {
	if c, ok := s.of.(interface{ Close() }); ok {
		c.Close()
	}
}

// made is a connector and its life.
type made struct {
	connector.Connector
	life life
}

func steadily(c connector.Connector) made { return made{c, steady{c}} }

// adapter makes the connector that the manifest asks for. What the artifact holds is
// proved before it is read (G28). A connector that cannot be made is not healthy and
// says why: status and cancel must be answered all the same (G43).
func (d *daemon) adapter() (made, error) {
	manifest := d.parts.release.Manifest()
	switch adapter := manifest.Adapter(); adapter {
	case fleet.AdapterMCP:
		a := mcp.New(mcp.Config{
			Program: func(context.Context) (mcp.Program, error) {
				p, err := d.program()
				return mcp.Program{Path: p.Path, Args: p.Args, Dir: p.Dir}, err
			},
			Env: d.childEnv(), Manifest: manifest, Log: d.log.With("part", "connector"), Now: d.now, Secrets: d.childSecrets,
		})
		return made{a, a}, nil
	case fleet.AdapterExec:
		a := exec.New(exec.Config{
			Program:  func(context.Context) (exec.Program, error) { return d.program() },
			Manifest: manifest, Env: d.childEnv(), Log: d.log.With("part", "connector"),
		})
		return made{a, a}, nil
	case fleet.AdapterMCPHTTP:
		return d.remoteMCP(manifest)
	case fleet.AdapterHTTP:
		return d.templated(manifest)
	case fleet.AdapterGo:
		return made{}, fleet.Errorf(fleet.Invalid, codeConfig, "the release is a host of its own").
			Because("its connector is Go code in the artifact").Advise("run the artifact itself: it takes the same configuration")
	default:
		return made{}, fleet.Errorf(fleet.NotAdmitted, codeConfig, "no adapter serves the release").Because("its manifest names %q", fleet.Printable(adapter, 64))
	}
}

// document reads an artifact that is one document.
func (d *daemon) document() ([]byte, error) {
	extracted, err := d.extract()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(extracted.Path)
	if err != nil {
		return nil, fleet.Errorf(fleet.Unavailable, "artifact.directory", "the artifact cannot be read").Caused(err)
	}
	return data, nil
}

func (d *daemon) remoteMCP(manifest fleet.Manifest) (made, error) {
	data, err := d.document()
	if err != nil {
		return made{}, err
	}
	server, err := mcp.ParseServer(data)
	if err != nil {
		return broken(err), nil
	}
	to, err := d.product()
	if err != nil {
		return made{}, err
	}
	remote := &mcp.Remote{Server: server, Client: peer.Guarded(to, server.URL)}
	if server.AuthHeader != "" {
		remote.Credential = func(ctx context.Context) (connector.Secret, error) { return d.secrets.Get(ctx, d.ownRef()) }
	}
	a := mcp.New(mcp.Config{Remote: remote, Manifest: manifest, Log: d.log.With("part", "connector"), Now: d.now})
	return made{a, a}, nil
}

func (d *daemon) templated(manifest fleet.Manifest) (made, error) {
	data, err := d.document()
	if err != nil {
		return made{}, err
	}
	template, err := http.Parse(data)
	if err != nil {
		return broken(err), nil
	}
	to, err := d.product()
	if err != nil {
		return made{}, err
	}
	a, err := http.New(http.Config{Template: template, Manifest: manifest, Account: d.cfg.Connector.Account, Peer: to})
	if err != nil {
		return broken(err), nil
	}
	return steadily(a), nil
}

// product is how the product is reached: nothing special is allowed by itself.
func (d *daemon) product() (peer.Config, error) {
	return reach(peer.AddressPolicy{}, d.cfg.Connector.AllowRanges, d.cfg.Connector.CAFile)
}

// broken is a connector that cannot be made.
func broken(why error) made { return steadily(unusable{why}) }

type unusable struct{ why error }

func (u unusable) Discover(context.Context) ([]connector.Offer, error) { return nil, u.why }
func (u unusable) Health(context.Context) error                        { return u.why }
func (u unusable) Invoke(context.Context, connector.Call) (connector.Result, error) {
	return connector.Result{Class: connector.NotStarted, Why: u.why.Error()}, nil
}

// extract unpacks the artifact anew and proves its digest (G28). What an earlier
// start unpacked is removed first.
func (d *daemon) extract() (admission.Extracted, error) {
	root := filepath.Join(d.cfg.StateDir, "artifact")
	if err := os.RemoveAll(root); err != nil {
		return admission.Extracted{}, fleet.Errorf(fleet.Unavailable, "artifact.directory", "the artifact directory cannot be emptied").Caused(err)
	}
	return d.parts.release.ExtractArtifact(root, d.parts.release.ArtifactDigest())
}

// program makes the artifact ready to run.
func (d *daemon) program() (exec.Program, error) {
	extracted, err := d.extract()
	if err != nil {
		return exec.Program{}, err
	}
	work := d.workDir()
	if err := os.MkdirAll(work, 0o700); err != nil {
		return exec.Program{}, fleet.Errorf(fleet.Unavailable, "artifact.directory", "the connector's directory cannot be made").Caused(err)
	}
	p := exec.Program{Path: extracted.Path, Args: d.cfg.Connector.Args, Dir: work}
	if extracted.Interpreter == "" {
		return p, nil
	}
	interpreter, ok := d.cfg.Connector.Interpreters[extracted.Interpreter]
	if !ok {
		return p, fleet.Errorf(fleet.Invalid, codeConfig, "the release needs the interpreter %s", extracted.Interpreter).
			Advise("name its path under connector.interpreters")
	}
	p.Path, p.Args = interpreter, append([]string{extracted.Path}, p.Args...)
	return p, nil
}

func (d *daemon) workDir() string { return filepath.Join(d.cfg.StateDir, "work") }

// childEnv is the connector's environment without its credentials. Nothing of the
// host's own environment is passed on.
func (d *daemon) childEnv() []string {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + d.workDir(), "TMPDIR=" + d.workDir()}
	for name, value := range d.cfg.Connector.Env {
		env = append(env, name+"="+value)
	}
	slices.Sort(env[3:])
	return env
}

// ownWord in secret_env stands for the instance's own reference.
const ownWord = "default"

// ownRef is where the account's credential is: that of the current revision.
func (d *daemon) ownRef() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ref, ok := d.cfg.CredentialRevisions.Refs[d.cfg.CredentialRevisions.Current]; ok {
		return ref
	}
	return d.cfg.SecretProviderRef
}

func (d *daemon) childSecrets(ctx context.Context) (map[string]connector.Secret, error) {
	d.mu.Lock()
	wanted := d.cfg.Connector.SecretEnv
	d.mu.Unlock()
	all := make(map[string]connector.Secret, len(wanted))
	for name, ref := range wanted {
		if ref == ownWord {
			ref = d.ownRef()
		}
		s, err := d.secrets.Get(ctx, ref)
		if err != nil {
			return nil, fmt.Errorf("credential for %s: %w", name, err)
		}
		all[name] = s
	}
	return all, nil
}
