package peer

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Request is one plain HTTP request to a fixed endpoint, for products and services
// that do not speak the fleet's messages.
type Request struct {
	Method string // upper case
	// Path is joined to the endpoint's own: absolute, escaped, without dot segments.
	Path   string
	Query  string // escaped, without "?"
	Header http.Header
	Body   []byte
}

// Answer is what came back. It proves nothing about who answered beyond TLS.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends one request and reads the whole answer. It sends at most once, follows
// nothing, and passes every status on, redirects included. Any error is a *SendError,
// as that of Post.
func (c *Client) Do(ctx context.Context, endpoint Endpoint, r Request) (Answer, error) {
	if endpoint.IsZero() || !safePath(r.Path) || strings.ContainsAny(r.Query, "#\r\n ") || strings.ToUpper(r.Method) != r.Method || r.Method == "" {
		err := fleet.Invalidf(CodeRequest, "the request cannot be sent").Because("there is no endpoint, or method, path or query are not plain")
		return Answer{}, &SendError{Err: err}
	}
	if err := ctx.Err(); err != nil {
		return Answer{}, failure(err, false)
	}
	url := endpoint.text + r.Path
	if r.Query != "" {
		url += "?" + r.Query
	}
	sent := &tracker{body: r.Body}
	var body io.Reader
	if len(r.Body) > 0 {
		body = sent
	}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, sent.trace()), r.Method, url, body)
	if err != nil {
		return Answer{}, &SendError{Err: fleet.Invalidf(CodeRequest, "the request cannot be sent").Caused(err)}
	}
	req.ContentLength = int64(len(r.Body))
	if req.Header = r.Header.Clone(); req.Header == nil {
		req.Header = http.Header{}
	}
	resp, err := c.transportOf(endpoint, r).RoundTrip(req)
	if err != nil {
		return Answer{}, failure(err, sent.written.Load())
	}
	defer func() { _ = resp.Body.Close() }()
	return c.readAnswer(resp)
}

// transportOf keeps net/http from sending a second time by itself: it does so for
// requests without a body on a connection that was used before, if their method or an
// idempotency header suggests it. What may have an effect and has no body gets a
// connection of its own.
func (c *Client) transportOf(e Endpoint, r Request) *http.Transport {
	harmless := r.Method == http.MethodGet || r.Method == http.MethodHead
	if harmless || len(r.Body) > 0 {
		return c.transportFor(e)
	}
	if e.plain {
		return c.plainOnce
	}
	return c.secureOnce
}

func (c *Client) readAnswer(resp *http.Response) (Answer, error) {
	data, err := io.ReadAll(io.LimitReader(resp.Body, c.maxResponse+1))
	if err != nil {
		return Answer{}, failure(err, true)
	}
	if int64(len(data)) > c.maxResponse {
		err := fleet.Errorf(fleet.Unknown, CodeTooLarge, "the answer is too large")
		return Answer{}, &SendError{Written: true, Err: err.Because("%d bytes are allowed", c.maxResponse)}
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: data}, nil
}

// safePath is an absolute, escaped path that stays below the endpoint's own.
func safePath(path string) bool {
	if path == "" {
		return true
	}
	if path[0] != '/' || strings.ContainsAny(path, "?#\\ ") {
		return false
	}
	for i := range len(path) {
		if path[i] <= ' ' || path[i] > '~' {
			return false
		}
	}
	for segment := range strings.SplitSeq(strings.ToLower(path), "/") {
		plain := strings.ReplaceAll(segment, "%2e", ".")
		if plain == "." || plain == ".." {
			return false
		}
	}
	return true
}
