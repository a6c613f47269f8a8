package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// wire is what was seen of one call on the connection.
type wire struct {
	mu       sync.Mutex
	written  bool
	answered bool
	raw      json.RawMessage
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
type tapped struct{ sdk.Transport }

// Connect implements sdk.Transport.
func (t tapped) Connect(ctx context.Context) (sdk.Connection, error) {
	inner, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &tap{Connection: inner, calls: map[jsonrpc.ID]*wire{}}, nil
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
		w.written = true
		w.mu.Unlock()
		t.mu.Lock()
		t.calls[request.ID] = w
		t.mu.Unlock()
		context.AfterFunc(ctx, func() { t.forget(request.ID) })
	}
	return t.Connection.Write(ctx, message)
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
