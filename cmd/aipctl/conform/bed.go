package conform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/connector/mcp"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/host/journal"
	"github.com/aipfleet/aipfleet/pkg/host/secret"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/lifecycle"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// bed is a real host around the packed connector, reachable over loopback HTTP, and
// the gateway that speaks to it.
type bed struct {
	o        *Options
	pkg      *admission.Package
	dir      string
	identity host.Identity
	gateway  envelope.Signer
	stranger envelope.Signer
	signer   envelope.Signer
	adapter  *mcp.Adapter
	journal  *journal.Journal
	host     *host.Host
	server   *http.Server
	served   chan struct{}
	url      string
}

func (o *Options) newBed(p *admission.Package) (*bed, error) {
	dir, err := os.MkdirTemp("", "aipctl-conform-")
	if err != nil {
		return nil, fleet.AsError(err, "conform.directory")
	}
	b := &bed{o: o, pkg: p, dir: dir}
	if err := b.prepare(); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bed) prepare() (err error) {
	for name, into := range map[string]*envelope.Signer{"gateway": &b.gateway, "stranger": &b.stranger, "host": &b.signer} {
		if *into, err = envelope.GenerateKeyFile(filepath.Join(b.dir, name+".pem")); err != nil {
			return err
		}
	}
	if b.identity, err = identityOf(b.pkg); err != nil {
		return err
	}
	secrets, err := b.o.secrets()
	if err != nil {
		return err
	}
	work := filepath.Join(b.dir, "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		return fleet.AsError(err, "conform.directory")
	}
	b.adapter = mcp.New(mcp.Config{
		Program: b.program, Env: append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + work, "TMPDIR=" + work}, b.o.Env...),
		Manifest: b.pkg.Manifest(), Log: slog.New(slog.DiscardHandler), Now: b.o.App.Now,
		Secrets: func(context.Context) (map[string]connector.Secret, error) { return secrets, nil },
	})
	return b.start()
}

// identityOf makes up a target: the release is the only real part of it.
func identityOf(p *admission.Package) (host.Identity, error) {
	var id host.Identity
	var errs [4]error
	id.Tenant, errs[0] = fleet.ParseTenantID("conformance")
	id.Instance, errs[1] = fleet.ParseInstanceID("cinst_conformance")
	id.Replica, errs[2] = fleet.ParseReplicaID("crepl_conformance")
	id.Version = p.Release().VersionID
	if id.Version.IsZero() {
		id.Version, errs[3] = fleet.ParseVersionID("cver_conformance")
	}
	id.ManifestDigest, id.ArtifactDigest = p.ManifestDigest(), p.ArtifactDigest()
	return id, errors.Join(errs[:]...)
}

// secrets reads the connector's credentials; nothing else ever sees them (G21).
func (o *Options) secrets() (map[string]connector.Secret, error) {
	all := map[string]connector.Secret{}
	files := secret.Files{}
	for _, pair := range o.Secrets {
		name, file, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, app.Usagef("usage.flag", "--secret-file takes NAME=FILE")
		}
		files[name] = file
	}
	for name := range files {
		s, err := files.Get(context.Background(), name)
		if err != nil {
			return nil, err
		}
		all[name] = s
	}
	return all, nil
}

// program unpacks the artifact anew before each start and proves its digest (G28).
func (b *bed) program(context.Context) (mcp.Program, error) {
	root := filepath.Join(b.dir, "artifact")
	if err := os.RemoveAll(root); err != nil {
		return mcp.Program{}, fleet.AsError(err, "conform.directory")
	}
	x, err := b.pkg.ExtractArtifact(root, b.pkg.ArtifactDigest())
	if err != nil {
		return mcp.Program{}, err
	}
	program := mcp.Program{Path: x.Path, Args: b.o.Args, Dir: filepath.Join(b.dir, "work")}
	if x.Interpreter == "" {
		return program, nil
	}
	interpreter, err := exec.LookPath(x.Interpreter)
	if err != nil {
		return program, app.Usagef("release.interpreter", "interpreter %s is not in PATH", x.Interpreter).Caused(err)
	}
	program.Path, program.Args = interpreter, append([]string{x.Path}, b.o.Args...)
	return program, nil
}

// start begins the host on its journal, which may be that of an earlier one.
func (b *bed) start() (err error) {
	if b.journal, err = journal.Open(filepath.Join(b.dir, "journal.db"), journal.Options{Now: b.o.App.Now}); err != nil {
		return err
	}
	b.host, err = host.New(host.Config{
		Identity: b.identity, Manifest: b.pkg.Manifest(), Signer: b.signer, Gateways: envelope.KeySet{{DID: b.gateway.DID()}},
		Journal: b.journal, Connector: b.adapter, Capacity: 4, Now: b.o.App.Now,
		Lease: lifecycle.Standing{Epoch: 1, Held: lease.Hold(b.o.App.Now(), 24*time.Hour, time.Second)},
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fleet.AsError(err, "conform.listen")
	}
	b.url, b.served = "http://"+listener.Addr().String(), make(chan struct{})
	b.server = &http.Server{Handler: b.host.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func(s *http.Server, done chan struct{}) {
		_ = s.Serve(listener)
		close(done)
	}(b.server, b.served)
	return nil
}

// stop ends the host and leaves the connector and the journal's file.
func (b *bed) stop() {
	if b.server != nil {
		_ = b.server.Close()
		<-b.served
		b.server = nil
	}
	if b.host != nil {
		b.host.Close()
		b.host = nil
	}
	if b.journal != nil {
		_ = b.journal.Close()
		b.journal = nil
	}
}

func (b *bed) close() {
	b.stop()
	if b.adapter != nil {
		b.adapter.Close()
	}
	_ = os.RemoveAll(b.dir)
}

// route is the target and attempt of a message about an action.
func (b *bed) route(id fleet.ActionID, capability fleet.CapabilityID) protocol.RouteCoordinates {
	own := b.identity
	return protocol.RouteCoordinates{
		Action: id, Capability: capability, Tenant: own.Tenant, Instance: own.Instance, Replica: own.Replica, Version: own.Version,
		ManifestDigest: own.ManifestDigest, ArtifactDigest: own.ArtifactDigest, CatalogRevision: 1, LeaseEpoch: 1,
		Fence: fleet.Fence{Number: 1, Token: fleet.DigestBytes([]byte(id.String())).Hex()[:32]}, Mode: protocol.ModeSync,
		Deadline: b.o.App.Now().Add(30 * time.Second).UTC(), RegisteredJournal: b.journal.ID(),
	}
}

// said is a host's answer, opened.
type said struct {
	status int
	result *protocol.ActionResult
	body   []byte // of the answer
	code   string // of a refusal
}

// send signs a message as somebody and opens the answer.
func (b *bed) send(ctx context.Context, as envelope.Signer, id fleet.ActionID, capability fleet.CapabilityID, doc protocol.Document) (said, error) {
	now := b.o.App.Now()
	message, err := protocol.NewMessage(doc, fleet.NewMessageID(now), now)
	if err != nil {
		return said{}, err
	}
	raw, err := b.route(id, capability).Raw()
	if err != nil {
		return said{}, err
	}
	message.Security = &envelope.Security{Route: raw}
	data, err := envelope.Seal(message, envelope.Dispatch, as, b.signer.DID())
	if err != nil {
		return said{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+protocol.PathMessages, bytes.NewReader(data))
	if err != nil {
		return said{}, err
	}
	req.Header.Set("Content-Type", protocol.ContentType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return said{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, protocol.MaxControlBytes))
	if err != nil {
		return said{}, err
	}
	return b.open(resp.StatusCode, as, body)
}

func (b *bed) open(status int, as envelope.Signer, body []byte) (said, error) {
	opened, err := envelope.Open(body, envelope.Expect{Purpose: envelope.Response, Audience: as.DID(), Peer: b.signer.DID(), Now: b.o.App.Now()})
	if err != nil {
		return said{status: status}, fmt.Errorf("the answer, status %d, does not open: %w", status, err)
	}
	out := said{status: status, body: slices.Clone(opened.Body())}
	if opened.BodyKey() == (protocol.ActionResult{}).BodyKey() {
		result, err := protocol.Read[protocol.ActionResult](opened)
		out.result = &result
		return out, err
	}
	problem, err := protocol.Read[protocol.Error](opened)
	if err != nil {
		return out, err
	}
	if no, ok := problem.Refusal(); ok {
		out.code = no.Code
	}
	return out, nil
}
