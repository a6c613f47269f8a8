package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
)

// TestMain lets this test binary be the server: what the tests drive is the same
// program, over a real pipe, in a process of its own.
func TestMain(m *testing.M) {
	if _, serve := os.LookupEnv("TICKETDESK_TEST_SERVE"); serve {
		os.Exit(run(context.Background(), os.Args[1:], os.LookupEnv, stdio{os.Stdin, os.Stdout, os.Stderr}))
	}
	os.Exit(m.Run())
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// running is a server process and a client session with it.
type running struct {
	*mcp.ClientSession
	cmd    *exec.Cmd
	stderr *strings.Builder
}

func command(t *testing.T, dir, token string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(bounded(t), os.Args[0])
	cmd.Env = []string{"TICKETDESK_TEST_SERVE=1", "TICKETDESK_DIR=" + dir, "TICKETDESK_TOKEN=" + token, "TICKETDESK_ACCOUNT="}
	return cmd
}

func connect(t *testing.T, dir string) running {
	t.Helper()
	cmd := command(t, dir, "secret")
	r := running{cmd: cmd, stderr: &strings.Builder{}}
	cmd.Stderr = r.stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(bounded(t), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("connect: %v\n%s", err, r.stderr)
	}
	t.Cleanup(func() { session.Close() })
	r.ClientSession = session
	return r
}

func (r running) call(ctx context.Context, tool, key string, args map[string]any) (*mcp.CallToolResult, error) {
	params := &mcp.CallToolParams{Name: tool, Arguments: args}
	if key != "" {
		params.Meta = mcp.Meta{metaIdempotencyKey: key, metaActionID: "act_" + key}
	}
	return r.CallTool(ctx, params)
}

// ok calls a tool that must succeed and decodes its structured answer.
func ok[T any](t *testing.T, r running, tool, key string, args map[string]any) T {
	t.Helper()
	var answer T
	result, err := r.call(bounded(t), tool, key, args)
	if err != nil {
		t.Fatalf("%s: %v\n%s", tool, err, r.stderr)
	}
	text, err := json.Marshal(result.StructuredContent)
	if err != nil || result.IsError {
		t.Fatalf("%s: error result %s, %v", tool, text, err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func store(t *testing.T, rules ...desk.Rule) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "acme")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := desk.WriteFaults(dir, desk.Faults{Rules: rules}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func recount(t *testing.T, dir string) desk.Tally {
	t.Helper()
	effects, err := desk.ReadEffects(dir)
	if err != nil {
		t.Fatal(err)
	}
	return desk.Count(effects)
}

func TestServer_G27_ARepeatOverTheWireGetsTheFirstAnswer(t *testing.T) {
	dir := store(t)
	r := connect(t, dir)
	args := map[string]any{"title": "printer on fire", "priority": "high"}
	first := ok[desk.Opened](t, r, desk.OpenTicketTool, "k1", args)
	if again := ok[desk.Opened](t, r, desk.OpenTicketTool, "k1", args); again != first {
		t.Errorf("repeat = %+v, want %+v", again, first)
	}
	ok[desk.Commented](t, r, desk.CommentTicketTool, "k2", map[string]any{"ticket_id": first.TicketID, "comment": "out"})
	ok[desk.Closed](t, r, desk.CloseTicketTool, "k3", map[string]any{"ticket_id": first.TicketID, "resolution": "water"})
	ticket := ok[desk.Ticket](t, r, "get_ticket", "", map[string]any{"ticket_id": first.TicketID})
	if ticket.Status != desk.StatusClosed || len(ticket.Comments) != 1 || ticket.Account != "acme" {
		t.Errorf("ticket = %+v", ticket)
	}
	if got := ok[page](t, r, "list_tickets", "", map[string]any{"limit": 1}); len(got.Tickets) != 1 || got.NextAfter != "" {
		t.Errorf("list = %+v", got)
	}
	if got := recount(t, dir); got != (desk.Tally{Effects: 3, Keys: 3}) {
		t.Errorf("recount = %+v, want three effects", got)
	}
}

// The catalogue is what a packer reads: it must say which calls have effects and
// how an unknown one is reconciled.
func TestServer_G38_EveryToolWithAnEffectNamesItsReconcileTool(t *testing.T) {
	r := connect(t, store(t))
	listed, err := r.ListTools(bounded(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	effectful := 0
	for _, tool := range listed.Tools {
		if tool.InputSchema == nil || tool.OutputSchema == nil || tool.Annotations == nil {
			t.Errorf("%s lacks a schema or annotations", tool.Name)
			continue
		}
		if tool.Annotations.ReadOnlyHint {
			continue
		}
		effectful++
		if tool.Meta["aip/reconcile_tool"] != "find_operation" || tool.Meta["aip/idempotency"] != "provider_key" {
			t.Errorf("%s: _meta = %v", tool.Name, tool.Meta)
		}
	}
	if effectful != 3 || len(listed.Tools) != 6 {
		t.Errorf("%d tools, %d with effects; want 6 and 3", len(listed.Tools), effectful)
	}
}

// The hard case: the effect is durable, the process is killed with SIGKILL before
// the answer, and a new process can tell what happened.
func TestServer_G38_AKillAfterTheEffectIsAnsweredByFindOperation(t *testing.T) {
	dir := store(t, desk.Rule{ID: "hold", TitlePrefix: "lost", At: desk.AfterEffect, Action: desk.ActionStall})
	r := connect(t, dir)
	answered := make(chan error, 1)
	go func() {
		_, err := r.call(context.Background(), desk.OpenTicketTool, "k1", map[string]any{"title": "lost answer"})
		answered <- err
	}()
	waitFired(t, dir)
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err == nil {
		t.Fatal("the killed call was answered")
	}
	again := connect(t, dir)
	found := ok[finding](t, again, "find_operation", "", map[string]any{"idempotency_key": "k1"})
	if !found.Found || found.InProgress || found.Operation.ActionID != "act_k1" || found.Operation.Tool != desk.OpenTicketTool {
		t.Fatalf("finding = %+v", found)
	}
	repeat := ok[desk.Opened](t, again, desk.OpenTicketTool, "k1", map[string]any{"title": "lost answer"})
	var recorded desk.Opened
	if err := json.Unmarshal(found.Result, &recorded); err != nil || recorded != repeat {
		t.Errorf("the record answers %+v (%v), a repeat %+v", recorded, err, repeat)
	}
	if got := recount(t, dir); got != (desk.Tally{Effects: 1, Keys: 1}) {
		t.Errorf("recount = %+v, want exactly one effect", got)
	}
	if found := ok[finding](t, again, "find_operation", "", map[string]any{"idempotency_key": "never"}); found.Found || found.InProgress {
		t.Errorf("a key that was never used: %+v", found)
	}
}

func TestServer_G26_ACrashRuleEndsTheProcessUnanswered(t *testing.T) {
	for _, row := range []struct {
		at    string
		found bool
	}{{desk.BeforeEffect, false}, {desk.AfterEffect, true}} {
		dir := store(t, desk.Rule{ID: "crash", At: row.at, Action: desk.ActionCrash})
		r := connect(t, dir)
		if _, err := r.call(bounded(t), desk.OpenTicketTool, "k", map[string]any{"title": "x"}); err == nil {
			t.Errorf("%s: the call was answered", row.at)
		}
		r.Close()
		if status, isUnix := r.cmd.ProcessState.Sys().(syscall.WaitStatus); !isUnix || status.Signal() != syscall.SIGKILL {
			t.Errorf("%s: the process ended with %v, want SIGKILL", row.at, r.cmd.ProcessState)
		}
		found := ok[finding](t, connect(t, dir), "find_operation", "", map[string]any{"idempotency_key": "k"})
		if found.Found != row.found {
			t.Errorf("%s: found = %v, want %v", row.at, found.Found, row.found)
		}
	}
}

// A refusal is a tool error: nothing happened. A failure after the effect is a
// protocol error, which promises nothing.
func TestServer_G26_OnlyARefusalIsAToolError(t *testing.T) {
	dir := store(t,
		desk.Rule{ID: "b", TitlePrefix: "before", At: desk.BeforeEffect, Action: desk.ActionError},
		desk.Rule{ID: "a", TitlePrefix: "after", At: desk.AfterEffect, Action: desk.ActionError})
	r := connect(t, dir)
	for _, args := range []map[string]any{{"title": "before"}, {"title": ""}, {"title": "x", "priority": "urgent"}, {"title": "x", "extra": 1}} {
		result, err := r.call(bounded(t), desk.OpenTicketTool, "", args)
		if err != nil || !result.IsError {
			t.Errorf("%v: %+v, %v; want a tool error", args, result, err)
		}
	}
	if got := recount(t, dir); got.Effects != 0 {
		t.Errorf("%d effects after refusals", got.Effects)
	}
	_, err := r.call(bounded(t), desk.OpenTicketTool, "k", map[string]any{"title": "after"})
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Code != jsonrpc.CodeInternalError {
		t.Errorf("a failure after the effect: %v, want an internal protocol error", err)
	}
	if got := recount(t, dir); got.Effects != 1 {
		t.Errorf("%d effects, want the one before the failure", got.Effects)
	}
}

// A server must not outlive its client, not even with a call that stalls. The
// pipes are the test's own, since a client's Close waits for its calls.
func TestServer_G26_AClosedInputEndsAStalledServer(t *testing.T) {
	dir := store(t, desk.Rule{ID: "hold", At: desk.BeforeEffect, Action: desk.ActionStall})
	cmd := command(t, dir, "secret")
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(bounded(t), &mcp.IOTransport{Reader: out, Writer: in}, nil)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := running{ClientSession: session}.call(context.Background(), desk.OpenTicketTool, "k", map[string]any{"title": "x"})
		answered <- err
	}()
	waitFired(t, dir)
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	<-answered // an error, or the refusal that the server could still write
	if got := recount(t, dir); got.Effects != 0 {
		t.Errorf("%d effects of a call whose client had gone", got.Effects)
	}
}

func TestServer_G18_AWrongTokenOrNoStoreGivesNothing(t *testing.T) {
	dir := store(t)
	connect(t, dir)
	out, err := command(t, dir, "stolen").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailure || !strings.Contains(string(out), "token") {
		t.Errorf("a wrong token: %v, %s", err, out)
	}
	if strings.Contains(string(out), "stolen") {
		t.Errorf("the refusal prints the token: %s", out)
	}
	bare := connect(t, "")
	result, err := bare.call(bounded(t), "list_tickets", "", map[string]any{})
	if err != nil || !result.IsError {
		t.Errorf("a server without a store answers %+v, %v", result, err)
	}
}

func TestRun_G40_WrongUsageSaysHow(t *testing.T) {
	for _, args := range [][]string{{"effects"}, {"fired", "--store", "x", "y"}, {"--nonsense"}, {"dance"}} {
		cmd := command(t, "", "")
		cmd.Args = append(cmd.Args, args...)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitUsage || len(out) == 0 {
			t.Errorf("%v: %v, %q; want exit %d with a text", args, err, out, exitUsage)
		}
	}
}

func TestEffects_G25_TheCommandRecountsTheStore(t *testing.T) {
	dir := store(t)
	r := connect(t, dir)
	ok[desk.Opened](t, r, desk.OpenTicketTool, "k", map[string]any{"title": "x"})
	cmd := command(t, "", "")
	cmd.Args = append(cmd.Args, "effects", "--store", dir)
	out, err := cmd.Output()
	var printed struct {
		Tally   desk.Tally    `json:"tally"`
		Effects []desk.Effect `json:"effects"`
	}
	if err != nil || json.Unmarshal(out, &printed) != nil {
		t.Fatalf("effects: %v, %s", err, out)
	}
	if printed.Tally != (desk.Tally{Effects: 1, Keys: 1}) || len(printed.Effects) != 1 || printed.Effects[0].ActionID != "act_k" {
		t.Errorf("printed %s", out)
	}
}

func waitFired(t *testing.T, dir string) {
	t.Helper()
	ctx := bounded(t)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		fired, err := desk.ReadFired(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(fired) > 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("no fault struck")
		case <-tick.C:
		}
	}
}
