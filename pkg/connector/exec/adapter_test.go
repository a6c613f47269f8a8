package exec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/connector/exec"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

type token string

func (t token) Reveal() string { return string(t) }
func (token) String() string   { return "hidden" }

// TestMain lets this test's binary be the program of its own tests.
func TestMain(m *testing.M) {
	if dir := os.Getenv("EXEC_TEST_DIR"); dir != "" {
		os.Exit(program(dir, os.Args[len(os.Args)-1]))
	}
	os.Exit(m.Run())
}

const schema = `{"type":"object"}`

// program does what the input tells it to, and notes that it did.
func program(dir, verb string) int {
	if verb == "discover" {
		var tools []string
		for _, name := range []string{"act", "find", "hold", "undo"} {
			tools = append(tools, fmt.Sprintf(`{"name":%q,"input_schema":%s}`, name, schema))
		}
		fmt.Printf(`{"tools":[%s]}`, strings.Join(tools, ","))
		return 0
	}
	var o exec.Order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return 1
	}
	note := filepath.Join(dir, verb+"."+o.Tool+"."+o.IdempotencyKey)
	_ = os.WriteFile(note, []byte(strings.Join(os.Args, " ")+"\n"+strings.Join(os.Environ(), "\n")), 0o600)
	var do struct {
		Exit   int
		Print  string
		Shout  string
		Hang   bool
		Signal bool
	}
	_ = json.Unmarshal(o.Input, &do)
	fmt.Fprintln(os.Stderr, do.Shout, o.Credential)
	if do.Print == "order" {
		o.Credential = "have " + o.Credential
		raw, _ := json.Marshal(o)
		do.Print = string(raw)
	}
	if verb == "reconcile" {
		do.Print = `{"found":` + fmt.Sprint(o.IdempotencyKey == "known") + `,"result":{"id":7}}`
	}
	fmt.Print(do.Print)
	if do.Hang {
		select {}
	}
	if do.Signal {
		p, _ := os.FindProcess(os.Getpid())
		_ = p.Kill()
		select {}
	}
	return do.Exit
}

func capability(tool string) fleet.CapabilityID {
	id, err := fleet.ParseCapabilityID("odd:" + tool)
	if err != nil {
		panic(err)
	}
	return id
}

func manifest() fleet.Manifest {
	return fleet.Manifest{
		AIPVersion: "1.0", Name: "odd", Version: "1",
		Capabilities: []fleet.CapabilityDefinition{{ID: capability("act"), InputSchema: json.RawMessage(schema)}},
		Implementations: []fleet.Implementation{{
			Capability: capability("act"), Adapter: "exec", Tool: "act", ReconcileTool: "find", PlanTool: "hold", CompensateTool: "undo",
		}},
	}
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) { b.mu.Lock(); defer b.mu.Unlock(); return b.b.Write(p) }
func (b *buffer) String() string              { b.mu.Lock(); defer b.mu.Unlock(); return b.b.String() }

type rig struct {
	*exec.Adapter
	t   *testing.T
	dir string
	log *buffer
}

func newRig(t *testing.T, m fleet.Manifest) *rig {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: t.TempDir(), log: &buffer{}}
	r.Adapter = exec.New(exec.Config{
		Program: func(context.Context) (exec.Program, error) {
			return exec.Program{Path: self, Args: []string{"given"}, Dir: r.dir}, nil
		},
		Manifest: m, Env: []string{"EXEC_TEST_DIR=" + r.dir}, Log: slog.New(slog.NewTextHandler(r.log, nil)),
	})
	r.Start()
	t.Cleanup(r.Close)
	return r
}

func (r *rig) healthy() *rig {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := r.AwaitHealthy(ctx); err != nil {
		r.t.Fatal(err)
	}
	return r
}

func call(input string) connector.Call {
	return connector.Call{
		Action: fleet.NewActionID(time.Now()), Capability: capability("act"), Input: json.RawMessage(input), IdempotencyKey: "k1", Credential: token("tok-27182818"),
	}
}

func (r *rig) invoke(ctx context.Context, input string) connector.Result {
	r.t.Helper()
	got, err := r.Invoke(ctx, call(input))
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// TestInvoke_G26_ExitCodesAreTheWholeTruth is the table of a program's ends.
func TestInvoke_G26_ExitCodesAreTheWholeTruth(t *testing.T) {
	r := newRig(t, manifest()).healthy()
	for input, want := range map[string]connector.Class{
		`{"Print":"{\"id\":9007199254740993}"}`: connector.Succeeded, `{"Print":""}`: connector.Succeeded, `{"Print":"<html>"}`: connector.Succeeded,
		`{"Exit":80,"Print":"{\"code\":\"closed\",\"message\":\"no\"}"}`: connector.Failed, `{"Exit":80}`: connector.Failed,
		`{"Exit":81}`: connector.NotStarted, `{"Exit":1}`: connector.Unknown, `{"Exit":2}`: connector.Unknown, `{"Exit":64}`: connector.Unknown,
		`{"Exit":126}`: connector.Unknown, `{"Exit":127}`: connector.Unknown, `{"Exit":255}`: connector.Unknown, `{"Signal":true}`: connector.Unknown,
	} {
		if got := r.invoke(context.Background(), input); got.Class != want {
			t.Errorf("%s: %+v, want %s", input, got, want)
		}
	}
	if got := r.invoke(context.Background(), `{"Print":"{\"id\":9007199254740993}"}`); string(got.Output) != `{"id":9007199254740993}` {
		t.Errorf("output %s", got.Output)
	}
	if got := r.invoke(context.Background(), `{"Exit":80,"Print":"{\"code\":\"closed\",\"message\":\"no\"}"}`); got.Failure.Code != "provider.closed" || got.Failure.Message != "no" {
		t.Errorf("failure %+v", got.Failure)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if got := r.invoke(ctx, `{"Hang":true}`); got.Class != connector.Unknown {
		t.Errorf("killed at its deadline: %+v", got)
	}
	if got := r.invoke(ctx, `{}`); got.Class != connector.NotStarted {
		t.Errorf("after its deadline: %+v", got)
	}
}

// TestInvoke_G21_TheCredentialIsOnStandardInputAlone: not in arguments, environment,
// log or answer.
func TestInvoke_G21_TheCredentialIsOnStandardInputAlone(t *testing.T) {
	t.Setenv("HOST_ONLY", "leak-161803")
	r := newRig(t, manifest()).healthy()
	got := r.invoke(context.Background(), `{"Print":"order","Shout":"my token is"}`)
	if !strings.Contains(string(got.Output), `"credential":"have [redacted]"`) || !strings.Contains(string(got.Output), `"idempotency_key":"k1"`) {
		t.Errorf("the order: %s", got.Output)
	}
	seen, err := os.ReadFile(filepath.Join(r.dir, "invoke.act.k1"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(seen) + r.log.String(); strings.Contains(text, "27182818") || strings.Contains(text, "leak-161803") {
		t.Errorf("shown:\n%s", text)
	}
	if !strings.Contains(string(seen), " given invoke\n") || !strings.Contains(r.log.String(), "my token is [redacted]") {
		t.Errorf("arguments or log: %s\n%s", seen, r.log.String())
	}
}

func TestReconcile_G26_AsksTheProgram(t *testing.T) {
	r := newRig(t, manifest()).healthy()
	q := connector.Query{Capability: capability("act"), IdempotencyKey: "known"}
	if f, err := r.Reconcile(context.Background(), q); err != nil || !f.Found || string(f.Result.Output) != `{"id":7}` {
		t.Errorf("%+v %v", f, err)
	}
	q.IdempotencyKey = "other"
	if f, err := r.Reconcile(context.Background(), q); err != nil || f.Found {
		t.Errorf("%+v %v", f, err)
	}
}

func TestTransaction_G25_EachStepIsAVerb(t *testing.T) {
	r := newRig(t, manifest()).healthy()
	ctx, c := context.Background(), call(`{"Print":"{}"}`)
	if got, err := r.Plan(ctx, c); err != nil || got.Class != connector.Succeeded {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := r.Commit(ctx, c, json.RawMessage(`{}`)); err != nil || got.Class != connector.Succeeded {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := r.Release(ctx, connector.Query{Capability: c.Capability, IdempotencyKey: "k1"}, nil); err != nil || got.Class != connector.Succeeded {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := r.Compensate(ctx, c, connector.Done{}); err != nil || got.Class != connector.Succeeded {
		t.Errorf("%+v %v", got, err)
	}
	for _, name := range []string{"plan.hold.k1", "commit.act.k1", "release.undo.k1", "compensate.undo.k1"} {
		if _, err := os.Stat(filepath.Join(r.dir, name)); err != nil {
			t.Errorf("%s was not run", name)
		}
	}
}

func TestHealth_G34_NamesTheToolThatDiffers(t *testing.T) {
	for name, change := range map[string]func(*fleet.Manifest){
		"act": func(m *fleet.Manifest) {
			m.Capabilities[0].InputSchema = json.RawMessage(`{"type":"object","maxProperties":1}`)
		},
		"gone": func(m *fleet.Manifest) { m.Implementations[0].Tool = "gone" },
		"look": func(m *fleet.Manifest) { m.Implementations[0].ReconcileTool = "look" },
	} {
		m := manifest()
		change(&m)
		r := newRig(t, m)
		var err error
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if err = r.Health(context.Background()); fleet.CodeOf(err) == exec.CodeManifest {
				break
			}
		}
		if fleet.CodeOf(err) != exec.CodeManifest || !strings.Contains(err.Error(), "tool "+name) {
			t.Errorf("%s: %v", name, err)
		}
		if got := r.invoke(context.Background(), `{}`); got.Class != connector.NotStarted {
			t.Errorf("a program that differs was run: %+v", got)
		}
		r.Close()
	}
}

func TestStart_G28_NothingRunsWithoutItsProof(t *testing.T) {
	refused := fleet.Errorf(fleet.NotAdmitted, "artifact.digest", "the artifact is not the admitted one")
	a := exec.New(exec.Config{
		Program:  func(context.Context) (exec.Program, error) { return exec.Program{Path: "/bin/true"}, refused },
		Manifest: manifest(), Log: slog.New(slog.DiscardHandler),
	})
	a.Start()
	defer a.Close()
	for deadline := time.Now().Add(30 * time.Second); fleet.CodeOf(a.Health(context.Background())) != "artifact.digest"; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("health does not say why nothing runs")
		}
	}
	if got, _ := a.Invoke(context.Background(), call(`{}`)); got.Class != connector.NotStarted {
		t.Errorf("%+v", got)
	}
}
