package main

import (
	"context"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
)

// version is what the server tells its clients.
const version = "1.0.0"

// Members of a request's _meta that name the caller's action.
const (
	metaActionID       = "aip/action_id"
	metaIdempotencyKey = "aip/idempotency_key"
)

var errNoStore = errors.New("this server has no store: set TICKETDESK_DIR; nothing happened")

// server binds a desk to MCP.
type server struct {
	desk *desk.Desk // nil when the server only lists its tools
	// quit ends the process; used when an effect may have happened and nobody
	// can tell.
	quit func(error)
	// whileConnected ends a call's context when the client has closed its side,
	// so that no call goes on for nobody.
	whileConnected func(context.Context) (context.Context, context.CancelFunc)
}

// run serves until the client closes its side or ctx ends.
func (s *server) run(ctx context.Context, std stdio) error {
	gone, leave := context.WithCancel(ctx)
	defer leave()
	s.whileConnected = func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		forget := context.AfterFunc(gone, cancel)
		return ctx, func() { forget(); cancel() }
	}
	implementation := &mcp.Implementation{Name: "ticketdesk", Title: "Ticket desk", Version: version}
	m := mcp.NewServer(implementation, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{}})
	s.addTools(m)
	return m.Run(ctx, &mcp.IOTransport{Reader: watched{std.in, leave}, Writer: std.out})
}

// watched calls leave when its reader ends.
type watched struct {
	io.ReadCloser
	leave func()
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil {
		w.leave()
	}
	return n, err
}

// handler makes a tool handler of a function over the desk.
func handler[In, Out any](s *server, fn func(context.Context, desk.Call, In) (Out, error)) mcp.ToolHandlerFor[In, Out] {
	return func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		var none Out
		if s.desk == nil {
			return nil, none, errNoStore
		}
		ctx, cancel := s.whileConnected(ctx)
		defer cancel()
		out, err := fn(ctx, callOf(req), in)
		if err != nil {
			return nil, none, s.refusal(err)
		}
		return nil, out, nil
	}
}

// refusal keeps apart what a client must keep apart: a plain error is answered as
// a tool error and means that nothing happened; a protocol error makes no such
// promise; and when even the desk cannot tell, the process ends unanswered.
func (s *server) refusal(err error) error {
	switch {
	case errors.Is(err, desk.ErrUncertain):
		s.quit(err)
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	case errors.Is(err, desk.ErrAfterEffect):
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	default:
		return err
	}
}

// callOf reads the caller's ids; an absent or foreign value is no id.
func callOf(req *mcp.CallToolRequest) desk.Call {
	meta := req.Params.GetMeta()
	action, _ := meta[metaActionID].(string)
	key, _ := meta[metaIdempotencyKey].(string)
	return desk.Call{ActionID: action, IdempotencyKey: key}
}
