package desk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func openIn(t *testing.T, dir string) *Desk {
	t.Helper()
	d, err := Open(Options{Dir: dir, Account: "acme", Token: "secret", Now: func() time.Time { return noon }, Crash: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func tally(t *testing.T, dir string) Tally {
	t.Helper()
	effects, err := ReadEffects(dir)
	if err != nil {
		t.Fatal(err)
	}
	return Count(effects)
}

func TestOpenTicket_G25_TheSameKeyGivesTheFirstTicketAndNoSecondEffect(t *testing.T) {
	dir := t.TempDir()
	d := openIn(t, dir)
	call := Call{ActionID: "act_1", IdempotencyKey: "key-1"}
	first, err := d.OpenTicket(bounded(t), call, "printer on fire", "", "high")
	if err != nil {
		t.Fatal(err)
	}
	again, err := openIn(t, dir).OpenTicket(bounded(t), call, "printer on fire", "", "high")
	if err != nil || again != first {
		t.Errorf("repeat = %+v, %v; want %+v", again, err, first)
	}
	if got := tally(t, dir); got != (Tally{Effects: 1, Keys: 1}) {
		t.Errorf("recount = %+v, want one effect", got)
	}
	if want := (Opened{TicketID: "acme-1", Account: "acme", Title: "printer on fire", OpenedAt: noon, OperationID: "op_acme_000001"}); first != want {
		t.Errorf("answer = %+v, want %+v", first, want)
	}
}

func TestOpenTicket_G27_AKeyUsedForAnotherRequestIsRefused(t *testing.T) {
	dir := t.TempDir()
	d := openIn(t, dir)
	call := Call{IdempotencyKey: "key-1"}
	opened, err := d.OpenTicket(bounded(t), call, "one", "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.OpenTicket(bounded(t), call, "two", "", ""); !errors.Is(err, ErrKeyConflict) {
		t.Errorf("another title: %v, want a key conflict", err)
	}
	if _, err := d.CommentTicket(bounded(t), call, opened.TicketID, "hello"); !errors.Is(err, ErrKeyConflict) {
		t.Errorf("another tool: %v, want a key conflict", err)
	}
	if got := tally(t, dir); got.Effects != 1 {
		t.Errorf("%d effects, want 1", got.Effects)
	}
}

// Two processes on one store are two open desks: only the files are shared.
func TestPerform_G25_TwoDesksOnOneStoreMakeOneEffectForEachKey(t *testing.T) {
	dir := t.TempDir()
	desks := []*Desk{openIn(t, dir), openIn(t, dir)}
	const keys = 20
	var wg sync.WaitGroup
	failures := make(chan error, 4*keys)
	for worker := range 4 {
		wg.Go(func() {
			for n := range keys {
				call := Call{IdempotencyKey: fmt.Sprintf("key-%d", n)}
				if _, err := desks[worker%2].OpenTicket(context.Background(), call, fmt.Sprint("ticket ", n), "", ""); err != nil {
					failures <- err
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	if got := tally(t, dir); got != (Tally{Effects: keys, Keys: keys}) {
		t.Errorf("recount = %+v, want %d effects and keys", got, keys)
	}
	page, more, err := desks[1].ListTickets("", "", 0)
	if err != nil || more || len(page) != keys {
		t.Errorf("%d tickets, more=%v, %v; want %d", len(page), more, err, keys)
	}
}

func TestTicket_G27_TheLifeOfATicketIsItsEffectsInOrder(t *testing.T) {
	dir := t.TempDir()
	d := openIn(t, dir)
	opened, err := d.OpenTicket(bounded(t), Call{}, "door", "stuck", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.CommentTicket(bounded(t), Call{IdempotencyKey: "c"}, opened.TicketID, "oiled"); err != nil {
		t.Fatal(err)
	}
	closed, err := d.CloseTicket(bounded(t), Call{IdempotencyKey: "x"}, opened.TicketID, "fixed")
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.CloseTicket(bounded(t), Call{IdempotencyKey: "x"}, opened.TicketID, "fixed")
	if err != nil || again != closed {
		t.Errorf("the repeat of a close = %+v, %v; want %+v", again, err, closed)
	}
	if _, err := d.CommentTicket(bounded(t), Call{}, opened.TicketID, "more"); !errors.Is(err, ErrClosed) {
		t.Errorf("a comment after the close: %v", err)
	}
	ticket, err := openIn(t, dir).GetTicket(opened.TicketID)
	if err != nil || ticket.Status != StatusClosed || len(ticket.Comments) != 1 || ticket.Priority != PriorityNormal {
		t.Errorf("after a restart the ticket is %+v, %v", ticket, err)
	}
	if _, err := d.GetTicket("acme-99"); !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown ticket: %v", err)
	}
}

func TestListTickets_G16_PagesAreBoundedAndJoin(t *testing.T) {
	d := openIn(t, t.TempDir())
	for n := range 5 {
		if _, err := d.OpenTicket(bounded(t), Call{}, fmt.Sprint("ticket ", n), "", ""); err != nil {
			t.Fatal(err)
		}
	}
	var seen []string
	after := ""
	for more := true; more; {
		var page []Ticket
		var err error
		page, more, err = d.ListTickets(StatusOpen, after, 2)
		if err != nil || len(page) > 2 || len(page) == 0 {
			t.Fatalf("page of %d, %v", len(page), err)
		}
		for _, ticket := range page {
			seen = append(seen, ticket.TicketID)
		}
		after = seen[len(seen)-1]
	}
	if fmt.Sprint(seen) != "[acme-1 acme-2 acme-3 acme-4 acme-5]" {
		t.Errorf("tickets = %v", seen)
	}
	if _, _, err := d.ListTickets("", "acme-99", 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("a page after an unknown ticket: %v", err)
	}
}

func TestOpen_G18_AStoreOpensOnlyForItsAccountAndToken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "acme")
	openIn(t, dir)
	rows := []struct {
		account, token string
		want           error
	}{
		{"globex", "secret", ErrWrongAccount},
		{"acme", "other", ErrWrongToken},
		{"acme", "", ErrNoToken},
		{"", "secret", nil},
	}
	for _, row := range rows {
		d, err := Open(Options{Dir: dir, Account: row.account, Token: row.token, Now: func() time.Time { return noon }})
		if !errors.Is(err, row.want) {
			t.Errorf("account %q, token %q: %v, want %v", row.account, row.token, err, row.want)
		}
		if err == nil {
			d.Close()
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "account.json"))
	if err != nil || len(text) == 0 {
		t.Fatal(err)
	}
	if string(text) != `{"account":"acme","token_digest":"`+digest([]byte("secret"))+"\"}\n" {
		t.Errorf("account.json = %s; it must hold a digest and nothing else of the token", text)
	}
}

func TestCatchUp_G39_ATornRecordWasNeverAnsweredAndIsCutOff(t *testing.T) {
	dir := t.TempDir()
	d := openIn(t, dir)
	if _, err := d.OpenTicket(bounded(t), Call{IdempotencyKey: "a"}, "kept", "", ""); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(dir, effectsName), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"sequence":2,"oper`); err != nil {
		t.Fatal(err)
	}
	file.Close()
	if got := tally(t, dir); got.Effects != 1 {
		t.Errorf("a reader counts %d effects beside a torn record, want 1", got.Effects)
	}
	opened, err := openIn(t, dir).OpenTicket(bounded(t), Call{IdempotencyKey: "b"}, "next", "", "")
	if err != nil || opened.TicketID != "acme-2" {
		t.Errorf("after the torn record: %+v, %v", opened, err)
	}
	if got := tally(t, dir); got != (Tally{Effects: 2, Keys: 2}) {
		t.Errorf("recount = %+v, want two effects", got)
	}
}

func TestAppend_G26_AFailedFlushIsUncertainAndStopsTheDesk(t *testing.T) {
	d := openIn(t, t.TempDir())
	d.journal.file.Close()
	readOnly, err := os.Open(filepath.Join(d.dir, effectsName))
	if err != nil {
		t.Fatal(err)
	}
	d.journal.file = readOnly // neither writes nor truncates
	if _, err := d.OpenTicket(bounded(t), Call{}, "x", "", ""); !errors.Is(err, ErrUncertain) {
		t.Errorf("a write that cannot be undone: %v, want uncertain", err)
	}
	if _, err := d.GetTicket("acme-1"); !errors.Is(err, ErrUncertain) {
		t.Errorf("the desk goes on after it: %v", err)
	}
}

func TestCheckText_G40_InputOutsideTheLimitsIsRefusedWithItsName(t *testing.T) {
	dir := t.TempDir()
	d := openIn(t, dir)
	long := string(make([]byte, MaxTitle+1))
	for _, row := range [][3]string{{"", "", ""}, {long, "", ""}, {"ok", "", "urgent"}, {"\xff", "", ""}} {
		if _, err := d.OpenTicket(bounded(t), Call{}, row[0], row[1], row[2]); !errors.Is(err, ErrInvalid) {
			t.Errorf("title of %d bytes, priority %q: %v, want a refusal", len(row[0]), row[2], err)
		}
	}
	if got := tally(t, dir); got.Effects != 0 {
		t.Errorf("%d effects after refusals", got.Effects)
	}
}

func TestCount_G25_ADuplicateEffectIsCounted(t *testing.T) {
	effects := []Effect{
		{Account: "a", IdempotencyKey: "k"}, {Account: "a", IdempotencyKey: "k"},
		{Account: "b", IdempotencyKey: "k"}, {Account: "a"},
	}
	if got, want := Count(effects), (Tally{Effects: 4, Keys: 2, Duplicates: 1, Keyless: 1}); got != want {
		t.Errorf("recount = %+v, want %+v", got, want)
	}
}
