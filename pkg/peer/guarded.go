package peer

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Guarded makes an HTTP client for a library that brings its own protocol: it reaches
// the endpoint's origin and nothing else, under the address policy, follows no
// redirect, and bounds every answer that is not an event stream.
func Guarded(c Config, endpoint Endpoint) *http.Client {
	client := NewClient(c)
	return &http.Client{
		Transport:     &guard{next: client.transportFor(endpoint), origin: endpoint.origin, most: client.maxResponse},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type guard struct {
	next   *http.Transport
	origin string
	most   int64
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if originOf(r.URL) != g.origin || r.URL.User != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fleet.Errorf(fleet.Denied, CodeEndpoint, "the request leaves its origin").Because("it is for %s", fleet.Printable(originOf(r.URL), 200))
	}
	resp, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != "text/event-stream" {
		resp.Body = &limited{inner: resp.Body, left: g.most}
	}
	return resp, nil
}

// CloseIdleConnections lets http.Client close what is idle.
func (g *guard) CloseIdleConnections() { g.next.CloseIdleConnections() }

func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

// limited fails a body that is too long, where io.LimitReader would end it.
type limited struct {
	inner io.ReadCloser
	left  int64
}

var errTooLong = errors.New("the answer is too large")

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		var one [1]byte
		if n, err := l.inner.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, errTooLong
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.inner.Read(p)
	l.left -= int64(n)
	return n, err
}

// Close implements io.Closer.
func (l *limited) Close() error { return l.inner.Close() }

// HeaderName reports a token as RFC 9110 has it: the form of a header's name and of an
// authentication scheme.
func HeaderName(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for _, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return true
}
