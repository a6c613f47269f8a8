package peer

import (
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

// BodyPatience bounds the reading of a request's body.
const BodyPatience = 30 * time.Second

// Strict refuses requests that two readers may understand differently, before the
// handler sees them: a body whose end is not told by a length, a header that must be
// unique and comes twice, a coded body, a target that is not a plain path. The
// connection ends with such a request, so that nothing behind it is read as another
// one. A body that is not there in time ends it as well.
//
// What net/http refuses by itself (folded headers, two lengths, broken chunks) does
// not come here.
func Strict(next http.Handler) http.Handler { return strict{next, BodyPatience} }

type strict struct {
	next     http.Handler
	patience time.Duration
}

// ServeHTTP implements http.Handler.
func (s strict) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status, code, why := misread(r); status != 0 {
		refuseRequest(w, status, code, why)
		return
	}
	if r.ContentLength != 0 {
		r.Body = watched(w, r.Body, s.patience)
	}
	s.next.ServeHTTP(w, r)
}

// misread says what is wrong with the form of a request; status 0 when nothing is.
func misread(r *http.Request) (status int, code, why string) {
	switch {
	case r.ProtoMajor < 2 && len(r.TransferEncoding) > 0, r.ContentLength < 0 && r.ProtoMajor < 2:
		return http.StatusLengthRequired, "http.length", "a body needs a Content-Length"
	case !strings.HasPrefix(r.RequestURI, "/") || strings.ContainsAny(r.RequestURI, "#\\"):
		return http.StatusBadRequest, "http.target", "the target is not a path"
	case !cleanPath(r.URL.Path):
		return http.StatusNotFound, "http.path", "the path is not in its shortest form"
	case r.Header.Get("Upgrade") != "":
		return http.StatusBadRequest, "http.upgrade", "nothing is upgraded to here"
	}
	for _, name := range []string{"Content-Type", "Authorization", "Content-Encoding", "Idempotency-Key", "Last-Event-Id", "Accept-Encoding"} {
		if len(r.Header[name]) > 1 {
			return http.StatusBadRequest, "http.header", "a header comes twice: " + name
		}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return http.StatusUnsupportedMediaType, "http.coding", "the body is coded"
	}
	return 0, "", ""
}

// cleanPath reports a path without empty and dotted segments and control characters.
func cleanPath(p string) bool {
	for i := range len(p) {
		if p[i] < ' ' || p[i] == 0x7f {
			return false
		}
	}
	trimmed := strings.TrimSuffix(p, "/")
	return p == "/" || trimmed != "" && path.Clean(trimmed) == trimmed
}

func refuseRequest(w http.ResponseWriter, status int, code, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Connection", "close")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"kind": "invalid", "code": code, "message": "the request is refused", "why": why}})
}

// watchedBody ends the reading of the connection when its time is over.
type watchedBody struct {
	io.ReadCloser
	timer *time.Timer
	once  sync.Once
}

func watched(w http.ResponseWriter, body io.ReadCloser, patience time.Duration) io.ReadCloser {
	control := http.NewResponseController(w)
	long := time.Unix(1, 0) // a deadline that is over
	return &watchedBody{ReadCloser: body, timer: time.AfterFunc(patience, func() { _ = control.SetReadDeadline(long) })}
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.done()
	}
	return n, err
}

// Close implements io.Closer.
func (b *watchedBody) Close() error {
	b.done()
	return b.ReadCloser.Close()
}

func (b *watchedBody) done() { b.once.Do(func() { b.timer.Stop() }) }
