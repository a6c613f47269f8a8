package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Defaults where a Config field is zero.
const (
	DefaultMaxResponse = 4 << 20
	DefaultDialTimeout = 5 * time.Second

	idleTimeout       = 90 * time.Second
	maxResponseHeader = 64 << 10
	defaultIdlePerKey = 64
)

// Codes of the failures of Post.
const (
	CodeRequest     = "peer.request"            // the call itself is wrong; nothing was sent
	CodeUnreachable = "peer.unreachable"        // no connection; nothing was sent
	CodeInterrupted = "peer.interrupted"        // it may have been sent
	CodeTooLarge    = "peer.response_too_large" // sent; the answer is not usable
	CodeRedirect    = "peer.redirect"           // sent; the answer points elsewhere and is not followed
)

// Config is what a Client needs. The zero Config reaches public addresses over
// https with the system's certificate roots.
type Config struct {
	Addresses AddressPolicy
	// MaxResponse bounds an answer's body in bytes; 0 means 4 MiB.
	MaxResponse int64
	// DialTimeout bounds connecting and the TLS handshake, each; 0 means 5 s.
	DialTimeout time.Duration
	// MaxIdlePerPeer bounds kept connections per peer; 0 means 64.
	MaxIdlePerPeer int
	// TLS adds roots or a client certificate. Verification cannot be turned off.
	TLS *tls.Config
	// Resolver replaces the system's resolver; nil means the default.
	Resolver *net.Resolver
}

// Client sends messages to pinned peers over pooled connections, HTTP/2 where
// the peer offers it. It is safe for concurrent use.
type Client struct {
	secure, plain         *http.Transport
	secureOnce, plainOnce *http.Transport // a connection for each request
	maxResponse           int64
}

// NewClient makes a client. Close releases its connections.
func NewClient(c Config) *Client {
	if c.MaxResponse <= 0 {
		c.MaxResponse = DefaultMaxResponse
	}
	if c.DialTimeout <= 0 {
		c.DialTimeout = DefaultDialTimeout
	}
	if c.MaxIdlePerPeer <= 0 {
		c.MaxIdlePerPeer = defaultIdlePerKey
	}
	loopbackToo := func(addr netip.Addr) error {
		if !addr.Unmap().IsLoopback() {
			return refuseAddress(addr, "http reaches only loopback")
		}
		return c.Addresses.Check(addr)
	}
	client := &Client{
		secure: c.transport(c.Addresses.Check), secureOnce: c.transport(c.Addresses.Check),
		plain: c.transport(loopbackToo), plainOnce: c.transport(loopbackToo),
		maxResponse: c.MaxResponse,
	}
	client.secureOnce.DisableKeepAlives, client.plainOnce.DisableKeepAlives = true, true
	return client
}

// Close drops idle connections. Running calls are not touched.
func (c *Client) Close() {
	c.secure.CloseIdleConnections()
	c.plain.CloseIdleConnections()
}

// transport has no proxy and judges every address right before it is dialled,
// after names were resolved.
func (c Config) transport(check func(netip.Addr) error) *http.Transport {
	dialer := &net.Dialer{
		Timeout:  c.DialTimeout,
		Resolver: c.Resolver,
		Control: func(_, address string, _ syscall.RawConn) error {
			target, err := netip.ParseAddrPort(address)
			if err != nil {
				return refuseAddress(netip.Addr{}, "it is not an address and a port")
			}
			return check(target.Addr())
		},
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        c.tls(),
		TLSHandshakeTimeout:    c.DialTimeout,
		Protocols:              &protocols,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    c.MaxIdlePerPeer,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
}

func (c Config) tls() *tls.Config {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS != nil {
		out.RootCAs = c.TLS.RootCAs
		out.Certificates = c.TLS.Certificates
	}
	return out
}

// Reply is a peer's whole answer. It proves nothing until it was opened.
type Reply struct {
	Status      int
	ContentType string
	Body        []byte
}

// SendError is a call without a usable answer.
type SendError struct {
	// Written is false only if it is proved that no byte of the request was
	// written: the connection was never had.
	Written bool
	Err     error
}

// Error implements error.
func (e *SendError) Error() string { return e.Err.Error() }

// Unwrap is the *fleet.Error: kind unavailable or denied if nothing was
// written, unknown otherwise.
func (e *SendError) Unwrap() error { return e.Err }

// Written reports whether the call that ended with err may have reached the
// peer. It is true for every error that is not a SendError which proves the
// opposite, and false for nil.
func Written(err error) bool {
	if err == nil {
		return false
	}
	var s *SendError
	return !errors.As(err, &s) || s.Written
}

// Post sends one message to endpoint+path and reads the whole answer. It sends
// at most once. Any error is a *SendError. The deadline is that of ctx.
func (c *Client) Post(ctx context.Context, endpoint Endpoint, path string, body []byte) (Reply, error) {
	if endpoint.IsZero() || !plainPath(path) {
		err := fleet.Invalidf(CodeRequest, "the message cannot be sent").Because("there is no endpoint or no path")
		return Reply{}, &SendError{Err: err}
	}
	if err := ctx.Err(); err != nil {
		return Reply{}, failure(err, false)
	}
	sent := &tracker{body: body}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, sent.trace()), http.MethodPost, endpoint.text+path, sent)
	if err != nil {
		e := fleet.Invalidf(CodeRequest, "the message cannot be sent").Caused(err)
		return Reply{}, &SendError{Err: e}
	}
	req.ContentLength = int64(len(body))
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": {"aipfleet"},
	}
	resp, err := c.transportFor(endpoint).RoundTrip(req)
	if err != nil {
		return Reply{}, failure(err, sent.written.Load())
	}
	defer func() { _ = resp.Body.Close() }()
	return c.read(resp)
}

func (c *Client) transportFor(e Endpoint) *http.Transport {
	if e.plain {
		return c.plain
	}
	return c.secure
}

func (c *Client) read(resp *http.Response) (Reply, error) {
	if resp.StatusCode < 200 || resp.StatusCode >= 300 && resp.StatusCode < 400 {
		err := fleet.Errorf(fleet.Unknown, CodeRedirect, "the peer answered %d", resp.StatusCode)
		return Reply{}, &SendError{Written: true, Err: err.Because("redirects are not followed")}
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, c.maxResponse+1))
	if err != nil {
		return Reply{}, failure(err, true)
	}
	if int64(len(data)) > c.maxResponse {
		err := fleet.Errorf(fleet.Unknown, CodeTooLarge, "the peer's answer is too large")
		return Reply{}, &SendError{Written: true, Err: err.Because("%d bytes are allowed", c.maxResponse)}
	}
	return Reply{Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type"), Body: data}, nil
}

// failure names what is known. A refusal by the address policy keeps its code.
func failure(err error, written bool) *SendError {
	if written {
		e := fleet.Errorf(fleet.Unknown, CodeInterrupted, "the peer's answer did not come")
		return &SendError{Written: true, Err: e.Caused(err)}
	}
	var policy *fleet.Error
	if errors.As(err, &policy) {
		return &SendError{Err: policy}
	}
	e := fleet.Errorf(fleet.Unavailable, CodeUnreachable, "the peer was not reached")
	return &SendError{Err: e.Caused(err)}
}

func plainPath(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") && !strings.ContainsAny(path, "?#%\\ ") &&
		!strings.Contains(path, "/.")
}

// tracker is the request's body and the record of whether it may have left.
//
// It has no GetBody, and the request has no idempotency header: net/http sends
// such a POST a second time by itself only when it can prove that nothing of the
// first was written, and never once a byte of the body was read.
type tracker struct {
	body    []byte
	at      int
	written atomic.Bool
}

// trace marks the request as written as soon as it is given a connection, before
// net/http puts a byte on it.
func (t *tracker) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { t.written.Store(true) },
		WroteHeaders: func() { t.written.Store(true) },
	}
}

// Read implements io.Reader.
func (t *tracker) Read(p []byte) (int, error) {
	t.written.Store(true)
	if t.at == len(t.body) {
		return 0, io.EOF
	}
	n := copy(p, t.body[t.at:])
	t.at += n
	return n, nil
}
