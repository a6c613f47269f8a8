package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Codes of errors that the client itself makes.
const (
	CodeAddress     = "client.address"     // Invalid: the server address
	CodeUnreachable = "client.unreachable" // Unavailable: no connection; nothing happened
	CodeNoAnswer    = "client.no_answer"   // Unknown: sent, and no answer came
	CodeAnswer      = "client.answer"      // Internal: the answer is not aipd's
)

const (
	maxAnswerBytes = 16 << 20
	dialTimeout    = 10 * time.Second
	maxIdle        = 256 // connections kept for the next call of as many concurrent callers
)

// Client talks to one aipd. Its methods may be used concurrently.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// Option changes how a client is made.
type Option func(*Client)

// WithHTTPClient uses another HTTP client, for tests and special transports. Its
// redirect policy is replaced.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) { copied := *h; c.http = &copied }
}

// New makes a client of the aipd at base, such as http://127.0.0.1:7100. An empty
// token sends no credential.
func New(base, token string, options ...Option) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fleet.Invalidf(CodeAddress, "the address of aipd is not usable").
			Because("%q is not http(s)://host[:port]", fleet.Printable(base, 200))
	}
	c := &Client{base: strings.TrimRight(u.String(), "/"), token: token, http: &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
			TLSHandshakeTimeout: dialTimeout, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: time.Minute,
			ForceAttemptHTTP2: true,
		},
	}}
	for _, o := range options {
		o(c)
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// call is one request.
type call struct {
	method string
	path   string // escaped
	query  url.Values
	body   any
	ok     []int // statuses that are answers; any other is an error
}

// raw sends a call and returns the answer's bytes.
func (c *Client) raw(ctx context.Context, k call) ([]byte, int, error) {
	request, err := c.request(ctx, k)
	if err != nil {
		return nil, 0, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, 0, c.transportError(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if err != nil {
		return nil, 0, c.transportError(err)
	}
	if len(data) > maxAnswerBytes {
		return nil, 0, fleet.Errorf(fleet.Internal, CodeAnswer, "the answer of aipd is too large")
	}
	for _, status := range k.ok {
		if response.StatusCode == status {
			return data, status, nil
		}
	}
	return nil, response.StatusCode, refusal(response.StatusCode, data)
}

// do sends a call and decodes the answer into out.
func (c *Client) do(ctx context.Context, k call, out any) error {
	data, _, err := c.raw(ctx, k)
	if err != nil {
		return err
	}
	if err := envelope.DecodeStrict(data, envelope.Limits{MaxBytes: maxAnswerBytes, MaxDepth: 256}, out); err != nil {
		return fleet.Errorf(fleet.Internal, CodeAnswer, "the answer of aipd cannot be read").Caused(err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, k call) (*http.Request, error) {
	target := c.base + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	var body io.Reader
	if k.body != nil {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(k.body); err != nil {
			return nil, fleet.Invalidf("client.request", "the request is not valid JSON").Caused(err)
		}
		body = &buf
	}
	request, err := http.NewRequestWithContext(ctx, k.method, target, body)
	if err != nil {
		return nil, fleet.Invalidf(CodeAddress, "the request cannot be made").Caused(err)
	}
	if k.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	return request, nil
}

// transportError tells a server that was never reached from one that did not answer.
func (c *Client) transportError(err error) error {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return fleet.Errorf(fleet.Unavailable, CodeUnreachable, "aipd at %s cannot be reached", c.base).
			Because("%s", fleet.Printable(dial.Err.Error(), 200)).
			Advise("check the address, and that aipd runs: curl %s/health", c.base)
	}
	return fleet.Errorf(fleet.Unknown, CodeNoAnswer, "aipd at %s did not answer", c.base).
		Because("%s", fleet.Printable(err.Error(), 300)).
		Advise("ask again with the same action id; a repeat never runs twice")
}

// refusal reads the server's error document.
func refusal(status int, data []byte) error {
	var doc struct {
		Error *action.Problem `json:"error"`
	}
	if err := json.Unmarshal(data, &doc); err == nil && doc.Error != nil && doc.Error.Code != "" {
		return doc.Error.Error()
	}
	return fleet.Errorf(fleet.Internal, CodeAnswer, "the answer with status %d is not one of aipd", status).
		Because("%s", fleet.Printable(string(data), 200)).
		Advise("check that the address is that of aipd")
}
