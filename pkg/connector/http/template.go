package http

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/peer"
)

// CodeTemplate is the code of a template that is refused.
const CodeTemplate = "connector.template"

// TypeTemplate is the type that every template names.
const TypeTemplate = "aipfleet.http/v1"

const (
	maxTemplateBytes = 4 << 20
	maxTools         = 4 * fleet.MaxCapabilities
)

// document is a template as it is written.
type document struct {
	Type string `json:"type"`
	// BaseURL is the origin and the first part of every path. It is fixed, or one
	// placeholder {account.NAME}, which the host's configuration fills.
	BaseURL string            `json:"base_url"`
	Auth    authDocument      `json:"auth,omitzero"`
	Headers map[string]string `json:"headers,omitempty"` // of every request
	// MaxResponseBytes bounds an answer; zero means 1 MiB.
	MaxResponseBytes int64           `json:"max_response_bytes,omitempty"`
	Tools            map[string]tool `json:"tools"`
}

// authDocument says where the credential goes.
type authDocument struct {
	Header string `json:"header"`
	Scheme string `json:"scheme,omitempty"` // put before the credential, with a space
}

// tool is what can be asked for under one name; exactly one member is set, or Release
// and Compensate together.
type tool struct {
	Call       *requestDocument `json:"call,omitempty"` // has an effect, prepares one, or only reads
	Look       *lookDocument    `json:"look,omitempty"` // looks for an earlier call
	Release    *requestDocument `json:"release,omitempty"`
	Compensate *requestDocument `json:"compensate,omitempty"`
}

// requestDocument is one request and what its statuses mean.
type requestDocument struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Query   map[string]string `json:"query,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"` // a JSON document with placeholders
	Form    map[string]string `json:"form,omitempty"` // in place of Body
	Outcome outcomeDocument   `json:"outcome"`
	// Output, Operation and the members of Failure are JSON pointers into the answer.
	Output    string          `json:"output,omitempty"`
	Operation string          `json:"operation,omitempty"` // the product's own name for what was done
	Failure   failureDocument `json:"failure,omitzero"`
}

// outcomeDocument lists statuses: three digits, or a digit and "xx".
type outcomeDocument struct {
	Succeeded  []string `json:"succeeded,omitempty"`
	Failed     []string `json:"failed,omitempty"`      // definitely refused, without effect
	NotStarted []string `json:"not_started,omitempty"` // refused before the product acts; the same call may be sent again
}

type failureDocument struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// lookDocument is a request that looks for the effect of an earlier call.
type lookDocument struct {
	requestDocument
	// Found is a JSON pointer: with a success, the effect exists exactly if there is
	// a value that is not null. Absent lists statuses that say that it does not.
	Found  string   `json:"found"`
	Absent []string `json:"absent,omitempty"`
}

// Template is a description that was checked. Parse makes one.
type Template struct {
	base    text
	auth    authDocument
	headers []named
	most    int64
	calls   map[string]*request
	looks   map[string]*look
	undos   map[string]*undo
}

type undo struct{ release, compensate *request }

type look struct {
	request
	found  pointer
	absent statuses
}

// Parse reads and checks a template. Everything that is wrong in itself is refused
// here, so that a call fails for its values alone.
func Parse(data []byte) (*Template, error) {
	var doc document
	if err := envelope.DecodeClosed(data, envelope.Limits{MaxBytes: maxTemplateBytes, SafeIntegers: true}, &doc); err != nil {
		return nil, err
	}
	if doc.Type != TypeTemplate {
		return nil, bad("type", "it is not "+TypeTemplate)
	}
	t := &Template{
		auth: doc.Auth, most: doc.MaxResponseBytes, calls: map[string]*request{}, looks: map[string]*look{}, undos: map[string]*undo{},
	}
	if t.most <= 0 {
		t.most = 1 << 20
	}
	if err := t.readBase(doc); err != nil {
		return nil, err
	}
	if len(doc.Tools) == 0 || len(doc.Tools) > maxTools {
		return nil, bad("tools", fmt.Sprintf("it needs 1..%d", maxTools))
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Tools)) {
		if err := t.readTool(name, doc.Tools[name]); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func bad(place, why string) error {
	return fleet.Invalidf(CodeTemplate, "the template is not valid").Because("%s: %s", place, why)
}

// readBase checks what all requests share.
func (t *Template) readBase(doc document) error {
	var err error
	if t.base, err = parseText(doc.BaseURL); err != nil {
		return bad("base_url", err.Error())
	}
	literal, fixed := t.base.literal()
	if whole := t.base.whole(); whole != nil && whole.source != "account" || whole == nil && !fixed {
		return bad("base_url", "it is neither fixed nor one placeholder {account.NAME}")
	}
	if fixed {
		if _, err := peer.ParseEndpoint(literal); err != nil {
			return bad("base_url", err.Error())
		}
	}
	if doc.Auth.Header != "" && !freeHeader(doc.Auth.Header) || doc.Auth.Scheme != "" && !peer.HeaderName(doc.Auth.Scheme) {
		return bad("auth", "it is not a header, and a scheme of one word")
	}
	t.headers, err = readHeaders("headers", doc.Headers, doc.Auth.Header)
	return err
}

func (t *Template) readTool(name string, doc tool) error {
	if name == "" || len(name) > 256 {
		return bad("tools", "a name needs 1..256 bytes")
	}
	place := "tools." + name
	call, looks, undoes := doc.Call != nil, doc.Look != nil, doc.Release != nil || doc.Compensate != nil
	if count(call, looks, undoes) != 1 {
		return bad(place, "it needs one of call, look, and release or compensate")
	}
	var err error
	switch {
	case call:
		t.calls[name], err = t.readRequest(place+".call", *doc.Call)
	case looks:
		t.looks[name], err = t.readLook(place+".look", *doc.Look)
	default:
		u := &undo{}
		if doc.Release != nil {
			u.release, err = t.readRequest(place+".release", *doc.Release)
		}
		if doc.Compensate != nil && err == nil {
			u.compensate, err = t.readRequest(place+".compensate", *doc.Compensate)
		}
		t.undos[name] = u
	}
	return err
}

func count(all ...bool) int {
	n := 0
	for _, b := range all {
		if b {
			n++
		}
	}
	return n
}

func (t *Template) readLook(place string, doc lookDocument) (*look, error) {
	r, err := t.readRequest(place, doc.requestDocument)
	if err != nil {
		return nil, err
	}
	if r.method != "GET" && r.method != "HEAD" && r.method != "POST" {
		return nil, bad(place+".method", "looking is GET, HEAD or POST")
	}
	l := &look{request: *r}
	if l.found, err = parsePointer(doc.Found); err != nil {
		return nil, bad(place+".found", err.Error())
	}
	if l.absent, err = parseStatuses(doc.Absent); err != nil {
		return nil, bad(place+".absent", err.Error())
	}
	if s := l.absent.overlap(r.outcome.succeeded); s != 0 {
		return nil, bad(place+".absent", fmt.Sprintf("status %d also means success", s))
	}
	return l, nil
}

// Covers says what a manifest claims that the template does not have; nil when it has
// everything.
func (t *Template) Covers(m fleet.Manifest) error {
	for _, i := range m.Implementations {
		missing := ""
		undo := t.undos[i.CompensateTool]
		contract, _ := m.Capability(i.Capability)
		switch {
		case t.calls[i.Tool] == nil:
			missing = i.Tool
		case i.PlanTool != "" && t.calls[i.PlanTool] == nil:
			missing = i.PlanTool
		case i.ReconcileTool != "" && t.looks[i.ReconcileTool] == nil:
			missing = i.ReconcileTool
		case i.PlanTool != "" && (undo == nil || undo.release == nil), contract.Contract.Compensable() && (undo == nil || undo.compensate == nil):
			missing = i.CompensateTool
		}
		if missing != "" {
			return fleet.Errorf(fleet.NotAdmitted, CodeTemplate, "tool %s is not as it was admitted", fleet.Printable(missing, 200)).
				Because("the template has no such request for %s", i.Capability)
		}
	}
	return nil
}

// Tools lists the names of what can be called.
func (t *Template) Tools() []string { return slices.Sorted(maps.Keys(t.calls)) }
