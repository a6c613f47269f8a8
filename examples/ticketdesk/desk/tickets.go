package desk

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// Limits of what a ticket holds, in characters, and of a page.
const (
	MaxTitle    = 200
	MaxText     = 8000
	MaxPageSize = 200
)

// Priorities of a ticket.
const (
	PriorityLow    = "low"
	PriorityNormal = "normal"
	PriorityHigh   = "high"
)

// Opened is the answer to OpenTicket.
type Opened struct {
	TicketID    string    `json:"ticket_id"`
	Account     string    `json:"account"`
	Title       string    `json:"title"`
	OpenedAt    time.Time `json:"opened_at"`
	OperationID string    `json:"operation_id"`
}

// Commented is the answer to CommentTicket.
type Commented struct {
	TicketID    string    `json:"ticket_id"`
	Account     string    `json:"account"`
	Number      int       `json:"comment_number"`
	CommentedAt time.Time `json:"commented_at"`
	OperationID string    `json:"operation_id"`
}

// Closed is the answer to CloseTicket.
type Closed struct {
	TicketID    string    `json:"ticket_id"`
	Account     string    `json:"account"`
	Resolution  string    `json:"resolution"`
	ClosedAt    time.Time `json:"closed_at"`
	OperationID string    `json:"operation_id"`
}

// OpenTicket makes a ticket. An empty priority is normal.
func (d *Desk) OpenTicket(ctx context.Context, call Call, title, body, priority string) (Opened, error) {
	if priority == "" {
		priority = PriorityNormal
	}
	if err := checkText("title", title, 1, MaxTitle); err != nil {
		return Opened{}, err
	}
	if err := checkText("body", body, 0, MaxText); err != nil {
		return Opened{}, err
	}
	if priority != PriorityLow && priority != PriorityNormal && priority != PriorityHigh {
		return Opened{}, fmt.Errorf("%w: priority %q is not low, normal or high", ErrInvalid, priority)
	}
	effect, err := d.perform(ctx, request{
		tool: OpenTicketTool, call: call, title: title,
		input: Input{Title: title, Body: body, Priority: priority},
		decide: func(_ *state, next Effect) (string, any, error) {
			ticket := fmt.Sprintf("%s-%d", next.Account, next.Sequence)
			return ticket, Opened{TicketID: ticket, Account: next.Account, Title: title, OpenedAt: next.At, OperationID: next.OperationID}, nil
		},
	})
	return result[Opened](effect, err)
}

// CommentTicket adds a comment to an open ticket.
func (d *Desk) CommentTicket(ctx context.Context, call Call, ticketID, comment string) (Commented, error) {
	if err := checkText("comment", comment, 1, MaxText); err != nil {
		return Commented{}, err
	}
	title, err := d.titleOf(ticketID)
	if err != nil {
		return Commented{}, err
	}
	effect, err := d.perform(ctx, request{
		tool: CommentTicketTool, call: call, title: title,
		input: Input{TicketID: ticketID, Comment: comment},
		decide: func(s *state, next Effect) (string, any, error) {
			ticket, err := s.openTicket(ticketID)
			if err != nil {
				return "", nil, err
			}
			return ticketID, Commented{TicketID: ticketID, Account: next.Account, Number: len(ticket.Comments) + 1, CommentedAt: next.At, OperationID: next.OperationID}, nil
		},
	})
	return result[Commented](effect, err)
}

// CloseTicket closes an open ticket, for good.
func (d *Desk) CloseTicket(ctx context.Context, call Call, ticketID, resolution string) (Closed, error) {
	if err := checkText("resolution", resolution, 1, MaxText); err != nil {
		return Closed{}, err
	}
	title, err := d.titleOf(ticketID)
	if err != nil {
		return Closed{}, err
	}
	effect, err := d.perform(ctx, request{
		tool: CloseTicketTool, call: call, title: title,
		input: Input{TicketID: ticketID, Resolution: resolution},
		decide: func(s *state, next Effect) (string, any, error) {
			if _, err := s.openTicket(ticketID); err != nil {
				return "", nil, err
			}
			return ticketID, Closed{TicketID: ticketID, Account: next.Account, Resolution: resolution, ClosedAt: next.At, OperationID: next.OperationID}, nil
		},
	})
	return result[Closed](effect, err)
}

// GetTicket is one ticket as it is now, or ErrNotFound.
func (d *Desk) GetTicket(ticketID string) (Ticket, error) {
	var found Ticket
	err := d.look(func(s *state) error {
		ticket, ok := s.tickets[ticketID]
		if !ok {
			return fmt.Errorf("%w: %q", ErrNotFound, ticketID)
		}
		found = ticket.clone()
		return nil
	})
	return found, err
}

// ListTickets gives at most limit tickets, oldest first, that follow the ticket
// after ("" starts at the first). Status "" is every status; limit 0 is the most
// that a page holds. more says whether others follow.
func (d *Desk) ListTickets(status, after string, limit int) (page []Ticket, more bool, err error) {
	if limit <= 0 || limit > MaxPageSize {
		limit = MaxPageSize
	}
	page = []Ticket{}
	err = d.look(func(s *state) error {
		passed := after == ""
		for _, id := range s.order {
			ticket := s.tickets[id]
			if passed && (status == "" || status == ticket.Status) {
				if more = len(page) == limit; more {
					return nil
				}
				page = append(page, ticket.clone())
			}
			passed = passed || id == after
		}
		if !passed {
			return fmt.Errorf("%w: %q", ErrNotFound, after)
		}
		return nil
	})
	return page, more, err
}

// Finding is what the desk knows of an idempotency key.
type Finding struct {
	Found bool
	// UnderWay says that a call with the key still runs in this process, so that
	// an effect may yet follow.
	UnderWay bool
	Effect   Effect
}

// FindOperation looks for the effect of an idempotency key.
func (d *Desk) FindOperation(key string) (Finding, error) {
	if key == "" {
		return Finding{}, fmt.Errorf("%w: an idempotency key is needed", ErrInvalid)
	}
	// Asked before the record: a call that ends in between has its effect there.
	finding := Finding{UnderWay: d.underWay(key)}
	err := d.look(func(s *state) error {
		finding.Effect, finding.Found = s.byKey[key]
		return nil
	})
	return finding, err
}

func (d *Desk) titleOf(ticketID string) (string, error) {
	ticket, err := d.GetTicket(ticketID)
	return ticket.Title, err
}

func (s *state) openTicket(id string) (*Ticket, error) {
	ticket, ok := s.tickets[id]
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: %q", ErrNotFound, id)
	case ticket.Status == StatusClosed:
		return nil, fmt.Errorf("%w: %s", ErrClosed, id)
	default:
		return ticket, nil
	}
}

// clone detaches what a caller gets from what the desk keeps.
func (t *Ticket) clone() Ticket {
	copied := *t
	copied.Comments = append([]Comment{}, t.Comments...)
	return copied
}

// result decodes the recorded answer, so that a repeat gets what the first call
// got.
func result[T any](effect Effect, err error) (T, error) {
	var answer T
	if err != nil {
		return answer, err
	}
	return answer, json.Unmarshal(effect.Result, &answer)
}

func checkText(name, text string, least, most int) error {
	length := utf8.RuneCountInString(text)
	if length < least || length > most || !utf8.ValidString(text) {
		return fmt.Errorf("%w: %s must be %d to %d characters of UTF-8", ErrInvalid, name, least, most)
	}
	return nil
}
