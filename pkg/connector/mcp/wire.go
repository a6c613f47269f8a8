package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/pkg/connector"
)

// wire is what was seen of one call on the connection.
type wire struct {
	remote     bool             // a request over HTTP says itself when it leaves
	credential connector.Secret // of the call; nil leaves the session's

	mu       sync.Mutex
	id       jsonrpc.ID
	written  bool
	answered bool
	raw      json.RawMessage
	status   int // of HTTP, 0 before an answer
}

// mark notes that the call is about to be written.
func (w *wire) mark() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written = true
}

func (w *wire) answeredWith(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = status
}

// turnedAway says why a remote server did not take the call at all, or "". Only what
// is refused before a session is entered counts: who asked, and which session.
func (w *wire) turnedAway() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "the server did not accept the credential"
	case http.StatusNotFound:
		return "the server has ended the session"
	case http.StatusTooManyRequests:
		return "the server takes no more calls now"
	}
	return ""
}

func (w *wire) wasWritten() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written
}

func (w *wire) answer() (json.RawMessage, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.raw, w.answered
}

type wireKey struct{}

func withWire(ctx context.Context, w *wire) context.Context {
	return context.WithValue(ctx, wireKey{}, w)
}

// tapped is a transport whose connection notes, for calls that carry a wire,
// whether they were handed to the pipe and which bytes came back.
type tapped struct {
	sdk.Transport
	tap *tap // of the connection, once there is one
}

// Connect implements sdk.Transport.
func (t *tapped) Connect(ctx context.Context) (sdk.Connection, error) {
	inner, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.tap = &tap{Connection: inner, calls: map[jsonrpc.ID]*wire{}}
	return t.tap, nil
}

type tap struct {
	sdk.Connection
	mu    sync.Mutex
	calls map[jsonrpc.ID]*wire
}

// Write marks the call as written before the first byte is.
func (t *tap) Write(ctx context.Context, message jsonrpc.Message) error {
	w, _ := ctx.Value(wireKey{}).(*wire)
	request, isRequest := message.(*jsonrpc.Request)
	if w != nil && isRequest && request.Method == "tools/call" {
		w.mu.Lock()
		w.id, w.written = request.ID, w.written || !w.remote
		w.mu.Unlock()
		t.mu.Lock()
		t.calls[request.ID] = w
		t.mu.Unlock()
		context.AfterFunc(ctx, func() { t.forget(request.ID) })
	}
	return t.Connection.Write(ctx, message)
}

// cancel tells the server that a call is not wanted any more. The call goes on until
// it is answered.
func (t *tap) cancel(ctx context.Context, w *wire, reason string) error {
	w.mu.Lock()
	id := w.id
	w.mu.Unlock()
	if !id.IsValid() {
		return errors.New("the call was not written yet")
	}
	params, err := json.Marshal(map[string]any{"requestId": id.Raw(), "reason": reason})
	if err != nil {
		return err
	}
	return t.Connection.Write(ctx, &jsonrpc.Request{Method: "notifications/cancelled", Params: params})
}

func (t *tap) forget(id jsonrpc.ID) *wire {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.calls[id]
	delete(t.calls, id)
	return w
}

// Read keeps the bytes of an answer before the client decodes it.
func (t *tap) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := t.Connection.Read(ctx)
	response, isResponse := message.(*jsonrpc.Response)
	if err != nil || !isResponse {
		return message, err
	}
	if w := t.forget(response.ID); w != nil && response.Error == nil {
		w.mu.Lock()
		w.raw, w.answered = slices.Clone(response.Result), true
		w.mu.Unlock()
	}
	return message, nil
}
