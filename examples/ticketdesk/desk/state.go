package desk

import (
	"fmt"
	"time"
)

// Ticket states.
const (
	StatusOpen   = "open"
	StatusClosed = "closed"
)

// Ticket is one ticket as it is now.
type Ticket struct {
	TicketID   string     `json:"ticket_id"`
	Account    string     `json:"account"`
	Title      string     `json:"title"`
	Body       string     `json:"body"`
	Priority   string     `json:"priority"`
	Status     string     `json:"status"`
	OpenedAt   time.Time  `json:"opened_at"`
	ClosedAt   *time.Time `json:"closed_at,omitempty"`
	Resolution string     `json:"resolution,omitempty"`
	Comments   []Comment  `json:"comments"`
}

// Comment is one remark on a ticket.
type Comment struct {
	Number int       `json:"number"`
	Text   string    `json:"text"`
	At     time.Time `json:"at"`
}

// state is every effect folded, in order.
type state struct {
	last    int64
	order   []string // ticket ids, oldest first
	tickets map[string]*Ticket
	byKey   map[string]Effect
}

func newState() *state {
	return &state{tickets: map[string]*Ticket{}, byKey: map[string]Effect{}}
}

// apply folds the next effect.
func (s *state) apply(effect Effect) error {
	if effect.Sequence != s.last+1 {
		return fmt.Errorf("%s: record %d follows record %d", effectsName, effect.Sequence, s.last)
	}
	s.last = effect.Sequence
	if _, used := s.byKey[effect.IdempotencyKey]; !used && effect.IdempotencyKey != "" {
		s.byKey[effect.IdempotencyKey] = effect
	}
	if effect.Tool == OpenTicketTool {
		s.open(effect)
		return nil
	}
	ticket, ok := s.tickets[effect.TicketID]
	if !ok {
		return fmt.Errorf("%s: record %d names the unknown ticket %q", effectsName, effect.Sequence, effect.TicketID)
	}
	return change(ticket, effect)
}

func (s *state) open(effect Effect) {
	s.order = append(s.order, effect.TicketID)
	s.tickets[effect.TicketID] = &Ticket{
		TicketID: effect.TicketID, Account: effect.Account, Status: StatusOpen, OpenedAt: effect.At,
		Title: effect.Input.Title, Body: effect.Input.Body, Priority: effect.Input.Priority,
		Comments: []Comment{},
	}
}

func change(ticket *Ticket, effect Effect) error {
	switch effect.Tool {
	case CommentTicketTool:
		comment := Comment{Number: len(ticket.Comments) + 1, Text: effect.Input.Comment, At: effect.At}
		ticket.Comments = append(ticket.Comments, comment)
	case CloseTicketTool:
		at := effect.At
		ticket.Status, ticket.ClosedAt, ticket.Resolution = StatusClosed, &at, effect.Input.Resolution
	default:
		return fmt.Errorf("%s: record %d has the unknown tool %q", effectsName, effect.Sequence, effect.Tool)
	}
	return nil
}
