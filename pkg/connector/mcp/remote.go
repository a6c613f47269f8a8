package mcp

import (
	"context"
	"net/http"
	"net/http/httptrace"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
)

// Server names a remote MCP server. It is the artifact of a release with the adapter
// mcp-http: which server is spoken to is admitted, and no message can change it (G19).
type Server struct {
	URL peer.Endpoint
	// AuthHeader carries the credential, after AuthScheme and a space when there is
	// one. Without a header no credential is sent.
	AuthHeader, AuthScheme string
}

// maxServerBytes bounds the document.
const maxServerBytes = 16 << 10

// ParseServer reads the document {"url": …, "auth": {"header": …, "scheme": …}}.
func ParseServer(data []byte) (Server, error) {
	var said struct {
		URL  string `json:"url"`
		Auth struct {
			Header string `json:"header"`
			Scheme string `json:"scheme,omitempty"`
		} `json:"auth,omitzero"`
	}
	if err := envelope.DecodeClosed(data, envelope.Limits{MaxBytes: maxServerBytes, SafeIntegers: true}, &said); err != nil {
		return Server{}, err
	}
	url, err := peer.ParseEndpoint(said.URL)
	if err != nil {
		return Server{}, err
	}
	if !peer.HeaderName(said.Auth.Header) && said.Auth.Header != "" || said.Auth.Scheme != "" && !peer.HeaderName(said.Auth.Scheme) {
		return Server{}, fleet.Invalidf(CodeManifest, "the server's auth is not a header and a scheme")
	}
	return Server{URL: url, AuthHeader: said.Auth.Header, AuthScheme: said.Auth.Scheme}, nil
}

// Remote is how a remote server is reached.
type Remote struct {
	Server Server
	// Client reaches the server's origin and nothing else; peer.Guarded makes one.
	Client *http.Client
	// Credential is what the session itself is opened with; a call may bring its own.
	Credential func(ctx context.Context) (connector.Secret, error)
}

// reach opens a session with the remote server.
func (a *Adapter) reach(ctx context.Context) (*link, error) {
	var credential connector.Secret
	if a.cfg.Remote.Credential != nil {
		var err error
		if credential, err = a.cfg.Remote.Credential(ctx); err != nil {
			return nil, err
		}
		a.redact.Add(credential)
	}
	l := a.newLink()
	client := *a.cfg.Remote.Client
	client.Transport = &marked{next: a.cfg.Remote.Client.Transport, server: a.cfg.Remote.Server, own: credential}
	return l, a.greet(ctx, l, &sdk.StreamableClientTransport{Endpoint: a.cfg.Remote.Server.URL.String(), HTTPClient: &client, MaxRetries: 2})
}

// marked adds the credential to each request, and notes for calls that carry a wire
// whether the request left and what status came back.
type marked struct {
	next   http.RoundTripper
	server Server
	own    connector.Secret
}

// RoundTrip implements http.RoundTripper.
func (m *marked) RoundTrip(r *http.Request) (*http.Response, error) {
	w, _ := r.Context().Value(wireKey{}).(*wire)
	credential := m.own
	if w != nil && w.credential != nil {
		credential = w.credential
	}
	r = r.Clone(r.Context())
	if m.server.AuthHeader != "" && credential != nil {
		value := credential.Reveal()
		if m.server.AuthScheme != "" {
			value = m.server.AuthScheme + " " + value
		}
		r.Header.Set(m.server.AuthHeader, value)
	}
	if w != nil && r.Method == http.MethodPost {
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { w.mark() },
		}))
	}
	resp, err := m.next.RoundTrip(r)
	if err == nil && w != nil && r.Method == http.MethodPost {
		w.answeredWith(resp.StatusCode)
	}
	return resp, err
}
