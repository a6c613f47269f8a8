package http

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	nethttp "net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/peer"
)

// request is one request, checked and ready to be filled.
type request struct {
	method  string
	path    text
	query   []named
	headers []named
	body    envelope.Value // Invalid when there is none
	form    []named
	outcome outcome

	output, operation, code, message pointer
}

// named is a name with a text.
type named struct {
	name string
	text text
}

func (t *Template) readRequest(place string, doc requestDocument) (*request, error) {
	r := &request{method: doc.Method}
	if !slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}, doc.Method) {
		return nil, bad(place+".method", "it is not GET, HEAD, POST, PUT, PATCH or DELETE")
	}
	var err error
	if r.path, err = parsePath(doc.Path); err != nil {
		return nil, bad(place+".path", err.Error())
	}
	if r.query, err = readNamed(doc.Query); err != nil {
		return nil, bad(place+".query", err.Error())
	}
	if r.form, err = readNamed(doc.Form); err != nil {
		return nil, bad(place+".form", err.Error())
	}
	if r.headers, err = readHeaders(place+".headers", doc.Headers, t.auth.Header); err != nil {
		return nil, err
	}
	if err := r.readBody(doc); err != nil {
		return nil, bad(place+".body", err.Error())
	}
	if r.outcome, err = readOutcome(doc.Outcome); err != nil {
		return nil, bad(place+".outcome", err.Error())
	}
	return r, r.readPointers(place, doc)
}

func (r *request) readPointers(place string, doc requestDocument) error {
	for _, p := range []struct {
		name, text string
		into       *pointer
	}{
		{"output", doc.Output, &r.output}, {"operation", doc.Operation, &r.operation},
		{"failure.code", doc.Failure.Code, &r.code}, {"failure.message", doc.Failure.Message, &r.message},
	} {
		var err error
		if *p.into, err = parsePointer(p.text); err != nil {
			return bad(place+"."+p.name, err.Error())
		}
	}
	return nil
}

// parsePath wants a path whose own text is escaped and goes nowhere but down.
func parsePath(s string) (text, error) {
	t, err := parseText(s)
	if err != nil {
		return t, err
	}
	if !strings.HasPrefix(s, "/") || strings.HasPrefix(s, "//") {
		return t, errors.New("it does not begin with one /")
	}
	for _, p := range t.parts {
		for i := range len(p.literal) {
			if c := p.literal[i]; c <= ' ' || c > '~' || strings.IndexByte(`?#\`, c) >= 0 {
				return t, errors.New("it holds a character that a path does not have, or that begins another part")
			}
		}
	}
	return t, nil
}

func readNamed(all map[string]string) ([]named, error) {
	var out []named
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t, err := parseText(all[name])
		if err == nil && name == "" {
			err = errors.New("it has no name")
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		out = append(out, named{name, t})
	}
	return out, nil
}

// freeHeader reports a header that a template may set: none that belongs to the
// connection or to the message's frame.
func freeHeader(name string) bool {
	taken := []string{
		"Host", "Connection", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Keep-Alive", "Expect",
		"Proxy-Authorization", "Proxy-Connection", "Accept-Encoding", "Forwarded", "Cookie",
	}
	canonical := nethttp.CanonicalHeaderKey(name)
	return peer.HeaderName(name) && !slices.Contains(taken, canonical) && !strings.HasPrefix(canonical, "X-Forwarded-")
}

func readHeaders(place string, all map[string]string, auth string) ([]named, error) {
	for name := range all {
		if !freeHeader(name) || strings.EqualFold(name, auth) {
			return nil, bad(place, fmt.Sprintf("%q is not a header that a template may set", name))
		}
	}
	out, err := readNamed(all)
	if err != nil {
		return nil, bad(place, err.Error())
	}
	for _, h := range out {
		if literal, ok := h.text.literal(); ok {
			if _, err := headerValue(literal); err != nil {
				return nil, bad(place, h.name+": "+err.Error())
			}
		}
	}
	return out, nil
}

// readBody checks that every text of the body is a text that can be filled.
func (r *request) readBody(doc requestDocument) error {
	if len(doc.Body) == 0 {
		return nil
	}
	if len(doc.Form) > 0 || r.method == "GET" || r.method == "HEAD" {
		return errors.New("there is a form as well, or the method has no body")
	}
	v, err := envelope.ParseStrict(doc.Body, envelope.Limits{})
	if err != nil {
		return err
	}
	r.body = v
	return checkBody(v)
}

func checkBody(v envelope.Value) error {
	switch v.Kind() {
	case envelope.String:
		_, err := parseText(v.Text())
		return err
	case envelope.Array:
		for _, item := range v.Items() {
			if err := checkBody(item); err != nil {
				return err
			}
		}
	case envelope.Object:
		for _, m := range v.Members() {
			if err := checkBody(m.Value); err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
		}
	}
	return nil
}

// fill makes the request of one call. An error means that nothing can be sent.
func (r *request) fill(s scope, common []named) (peer.Request, error) {
	out := peer.Request{Method: r.method, Header: nethttp.Header{"User-Agent": {"aipfleet"}, "Accept": {"application/json"}}}
	var err error
	if out.Path, _, err = r.path.render(s, pathValue); err != nil {
		return out, fmt.Errorf("path: %w", err)
	}
	if out.Query, err = encode(r.query, s); err != nil {
		return out, fmt.Errorf("query: %w", err)
	}
	for _, h := range append(slices.Clone(common), r.headers...) {
		value, absent, err := h.text.render(s, headerValue)
		if err != nil {
			return out, fmt.Errorf("header %s: %w", h.name, err)
		}
		if !absent {
			out.Header.Set(h.name, value)
		}
	}
	return out, r.fillBody(s, &out)
}

func (r *request) fillBody(s scope, out *peer.Request) error {
	var err error
	switch {
	case len(r.form) > 0:
		var form string
		if form, err = encode(r.form, s); err != nil {
			return fmt.Errorf("form: %w", err)
		}
		out.Body = []byte(form)
		out.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	case r.body.Kind() != envelope.Invalid:
		var body bytes.Buffer
		if _, err = fillValue(r.body, s, &body); err != nil {
			return fmt.Errorf("body: %w", err)
		}
		out.Body = body.Bytes()
		out.Header.Set("Content-Type", "application/json")
	}
	return nil
}

// pathValue escapes a value for exactly one segment of a path.
func pathValue(s string) (string, error) {
	// A slash is refused although it would be escaped: servers differ in when they
	// unescape. Dots that only together with the template's own text become a segment
	// of dots are refused when the request is sent.
	if s == "" || s == "." || s == ".." || len(s) > 1024 || strings.ContainsAny(s, `/\`) || strings.ContainsFunc(s, unicode.IsControl) {
		return "", errors.New("its value is not a segment of a path")
	}
	return url.PathEscape(s), nil
}

// headerValue refuses what would end a header or be read differently by others.
func headerValue(s string) (string, error) {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return "", errors.New("its value has a character that a header does not have")
		}
	}
	if len(s) > 4096 || strings.TrimSpace(s) != s {
		return "", errors.New("its value is too long for a header, or begins or ends with a space")
	}
	return s, nil
}

func encode(all []named, s scope) (string, error) {
	values := url.Values{}
	for _, n := range all {
		value, absent, err := n.text.render(s, func(s string) (string, error) { return s, nil })
		if err != nil {
			return "", fmt.Errorf("%s: %w", n.name, err)
		}
		if !absent {
			values.Set(n.name, value)
		}
	}
	return values.Encode(), nil
}

// fillValue writes a body with its placeholders filled. A text that is one placeholder
// becomes the value itself, token for token; without a value the member or item is
// left out, which it reports.
func fillValue(v envelope.Value, s scope, out *bytes.Buffer) (absent bool, err error) {
	switch v.Kind() {
	case envelope.String:
		return fillString(v.Text(), s, out)
	case envelope.Array:
		return false, fillArray(v, s, out)
	case envelope.Object:
		return false, fillObject(v, s, out)
	}
	out.Write(v.Raw())
	return false, nil
}

func fillString(s string, sc scope, out *bytes.Buffer) (bool, error) {
	t, err := parseText(s)
	if err != nil {
		return false, err
	}
	if whole := t.whole(); whole != nil {
		v, ok := sc.get(*whole)
		if ok {
			out.Write(v.Raw())
		}
		return !ok, nil
	}
	filled, _, err := t.render(sc, func(s string) (string, error) { return s, nil })
	if err != nil {
		return false, err
	}
	quoted, err := json.Marshal(filled)
	out.Write(quoted)
	return false, err
}

func fillArray(v envelope.Value, s scope, out *bytes.Buffer) error {
	out.WriteByte('[')
	begin := out.Len()
	for _, item := range v.Items() {
		if err := fillNext(nil, item, s, out, begin); err != nil {
			return err
		}
	}
	out.WriteByte(']')
	return nil
}

func fillObject(v envelope.Value, s scope, out *bytes.Buffer) error {
	out.WriteByte('{')
	begin := out.Len()
	for _, m := range v.Members() {
		name, err := json.Marshal(m.Name)
		if err != nil {
			return err
		}
		if err := fillNext(append(name, ':'), m.Value, s, out, begin); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	out.WriteByte('}')
	return nil
}

// fillNext writes one more member or item, or nothing when it has no value.
func fillNext(name []byte, v envelope.Value, s scope, out *bytes.Buffer, begin int) error {
	var one bytes.Buffer
	absent, err := fillValue(v, s, &one)
	if err != nil || absent {
		return err
	}
	if out.Len() > begin {
		out.WriteByte(',')
	}
	out.Write(name)
	out.Write(one.Bytes())
	return nil
}
