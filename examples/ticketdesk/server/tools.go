package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
)

type openArgs struct {
	Title    string `json:"title"`
	Body     string `json:"body"`
	Priority string `json:"priority"`
}

type commentArgs struct {
	TicketID string `json:"ticket_id"`
	Comment  string `json:"comment"`
}

type closeArgs struct {
	TicketID   string `json:"ticket_id"`
	Resolution string `json:"resolution"`
}

type getArgs struct {
	TicketID string `json:"ticket_id"`
}

type listArgs struct {
	Status string `json:"status"`
	After  string `json:"after"`
	Limit  int    `json:"limit"`
}

type page struct {
	Account string        `json:"account"`
	Tickets []desk.Ticket `json:"tickets"`
	// NextAfter continues the list; absent at the end.
	NextAfter string `json:"next_after,omitempty"`
}

type findArgs struct {
	IdempotencyKey string `json:"idempotency_key"`
}

// finding is what the reconcile tool answers. result is the answer that the
// original call had.
type finding struct {
	Found      bool            `json:"found"`
	InProgress bool            `json:"in_progress"`
	Operation  *operation      `json:"operation,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
}

type operation struct {
	OperationID    string    `json:"operation_id"`
	Tool           string    `json:"tool"`
	Account        string    `json:"account"`
	TicketID       string    `json:"ticket_id"`
	ActionID       string    `json:"action_id,omitempty"`
	IdempotencyKey string    `json:"idempotency_key"`
	At             time.Time `json:"at"`
}

func (s *server) addTools(m *mcp.Server) {
	mcp.AddTool(m, effectful(desk.OpenTicketTool, "Open a ticket", openSchemas, additive),
		handler(s, func(ctx context.Context, call desk.Call, in openArgs) (desk.Opened, error) {
			return s.desk.OpenTicket(ctx, call, in.Title, in.Body, in.Priority)
		}))
	mcp.AddTool(m, effectful(desk.CommentTicketTool, "Comment on an open ticket", commentSchemas, additive),
		handler(s, func(ctx context.Context, call desk.Call, in commentArgs) (desk.Commented, error) {
			return s.desk.CommentTicket(ctx, call, in.TicketID, in.Comment)
		}))
	mcp.AddTool(m, effectful(desk.CloseTicketTool, "Close an open ticket, for good", closeSchemas, final),
		handler(s, func(ctx context.Context, call desk.Call, in closeArgs) (desk.Closed, error) {
			return s.desk.CloseTicket(ctx, call, in.TicketID, in.Resolution)
		}))
	mcp.AddTool(m, readOnly("get_ticket", "Show one ticket", getSchemas),
		handler(s, func(_ context.Context, _ desk.Call, in getArgs) (desk.Ticket, error) {
			return s.desk.GetTicket(in.TicketID)
		}))
	mcp.AddTool(m, readOnly("list_tickets", "List tickets, oldest first", listSchemas), handler(s, s.list))
	mcp.AddTool(m, readOnly("find_operation", "Find the effect of an earlier call by its idempotency key", findSchemas), handler(s, s.find))
}

func (s *server) list(_ context.Context, _ desk.Call, in listArgs) (page, error) {
	tickets, more, err := s.desk.ListTickets(in.Status, in.After, in.Limit)
	answer := page{Account: s.desk.Account(), Tickets: tickets}
	if more {
		answer.NextAfter = tickets[len(tickets)-1].TicketID
	}
	return answer, err
}

func (s *server) find(_ context.Context, _ desk.Call, in findArgs) (finding, error) {
	known, err := s.desk.FindOperation(in.IdempotencyKey)
	if err != nil {
		return finding{}, err
	}
	answer := finding{Found: known.Found, InProgress: known.UnderWay}
	if known.Found {
		effect := known.Effect
		answer.Result = effect.Result
		answer.Operation = &operation{
			OperationID: effect.OperationID, Tool: effect.Tool, Account: effect.Account, TicketID: effect.TicketID,
			ActionID: effect.ActionID, IdempotencyKey: effect.IdempotencyKey, At: effect.At,
		}
	}
	return answer, nil
}

func additive() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{DestructiveHint: new(bool), OpenWorldHint: new(bool)}
}

// final: what is closed stays closed, and closing it again does nothing.
func final() *mcp.ToolAnnotations {
	destructive := true
	return &mcp.ToolAnnotations{DestructiveHint: &destructive, IdempotentHint: true, OpenWorldHint: new(bool)}
}

// effectful describes a tool whose calls carry an idempotency key and can be
// looked up afterwards.
func effectful(name, title string, s schemas, annotations func() *mcp.ToolAnnotations) *mcp.Tool {
	return &mcp.Tool{
		Meta: mcp.Meta{
			"aip/idempotency":    "provider_key",
			"aip/reconcile_tool": "find_operation",
		},
		Name: name, Title: title, Description: title + ".", Annotations: annotations(),
		InputSchema: s.input, OutputSchema: s.output,
	}
}

func readOnly(name, title string, s schemas) *mcp.Tool {
	return &mcp.Tool{
		Name: name, Title: title, Description: title + ".",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: new(bool)},
		InputSchema: s.input, OutputSchema: s.output,
	}
}
