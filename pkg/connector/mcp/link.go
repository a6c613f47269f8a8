package mcp

import (
	"context"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// link is one session with a server, and the server's process when the host started
// it.
type link struct {
	session *sdk.ClientSession
	server  *process // nil for a remote server
	tap     *tap
	mute    chan struct{} // closed when the session ended
	relist  chan struct{} // the server says that its tools changed
	redact  *connector.Redactor

	mu      sync.Mutex
	flights map[fleet.ActionID]*flight
	calls   int           // under way
	closing bool          // no call begins any more
	quiet   chan struct{} // closed and replaced when a call ends
}

func (a *Adapter) newLink() *link {
	return &link{
		mute: make(chan struct{}), relist: make(chan struct{}, 1), redact: &a.redact,
		flights: map[fleet.ActionID]*flight{}, quiet: make(chan struct{}),
	}
}

// open starts or reaches the server and greets it.
func (a *Adapter) open(ctx context.Context) (*link, error) {
	if a.cfg.Remote != nil {
		return a.reach(ctx)
	}
	program, err := a.cfg.Program(ctx)
	if err != nil {
		return nil, err
	}
	env, err := a.environment(ctx)
	if err != nil {
		return nil, err
	}
	l := a.newLink()
	server, stdout, err := launch(program, env, &connector.Log{Redact: l.redact, To: a.cfg.Log, Also: a.cfg.Stderr})
	if err != nil {
		return nil, starting("its program cannot be started").(*fleet.Error).Caused(err)
	}
	l.server = server
	return l, a.greet(ctx, l, &sdk.IOTransport{Reader: stdout, Writer: server.stdin})
}

// greet opens the session; a link that it cannot open it ends.
func (a *Adapter) greet(ctx context.Context, l *link, transport sdk.Transport) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Patience)
	defer cancel()
	tapped := &tapped{Transport: transport}
	session, err := a.client(l).Connect(ctx, tapped, nil)
	if err != nil {
		if l.server != nil {
			l.server.end()
		}
		return starting("it does not speak MCP: " + a.redact.Text(fleet.Printable(err.Error(), 300)))
	}
	l.session, l.tap = session, tapped.tap
	go func() {
		defer close(l.mute)
		_ = l.session.Wait()
	}()
	return nil
}

// keepAlive is how often a remote server is asked whether it is there.
const keepAlive = 30 * time.Second

// client is the MCP client side; it offers the server nothing.
func (a *Adapter) client(l *link) *sdk.Client {
	options := &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case l.relist <- struct{}{}:
			default: // it is noted already
			}
		},
	}
	if l.server == nil {
		options.KeepAlive = keepAlive
	}
	return sdk.NewClient(&sdk.Implementation{Name: "aiphost", Version: "1"}, options)
}

// environment is the child's whole environment, with its credentials.
func (a *Adapter) environment(ctx context.Context) ([]string, error) {
	env := append([]string{}, a.cfg.Env...)
	if a.cfg.Secrets == nil {
		return env, nil
	}
	secrets, err := a.cfg.Secrets(ctx)
	if err != nil {
		return nil, err
	}
	for name, secret := range secrets {
		env = append(env, name+"="+secret.Reveal())
		a.redact.Add(secret)
	}
	return env, nil
}

// end ends the server, if it is the host's own, and the session.
func (l *link) end() {
	if l.server != nil {
		l.server.end()
	}
	_ = l.session.Close()
	<-l.mute
}

// settle lets no call begin any more and waits until none is under way, for as long as
// ctx and the session last.
func (l *link) settle(ctx context.Context) {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	for {
		l.mu.Lock()
		calls, quiet := l.calls, l.quiet
		l.mu.Unlock()
		if calls == 0 {
			return
		}
		select {
		case <-quiet:
		case <-l.mute:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Discover implements connector.Connector.
func (a *Adapter) Discover(ctx context.Context) ([]connector.Offer, error) {
	l, err := a.current()
	if l == nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Patience)
	defer cancel()
	return l.offers(ctx)
}

// maxTools bounds what a server may list.
const maxTools = 4 * fleet.MaxCapabilities

func (l *link) offers(ctx context.Context) ([]connector.Offer, error) {
	var all []connector.Offer
	for tool, err := range l.session.Tools(ctx, nil) {
		if err != nil {
			return nil, starting("its tools cannot be listed: " + l.redact.Text(fleet.Printable(err.Error(), 300)))
		}
		offer, err := offerOf(tool)
		if err != nil {
			return nil, err
		}
		if all = append(all, offer); len(all) > maxTools {
			return nil, fleet.Errorf(fleet.NotAdmitted, CodeManifest, "the connector lists too many tools").
				Because("more than %d", maxTools)
		}
	}
	return all, nil
}
