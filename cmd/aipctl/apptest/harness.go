package apptest

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry/memory"
)

// Epoch is when the clock of every harness starts.
func Epoch() time.Time { return time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC) }

// Harness is a fleet and the surroundings of a command.
type Harness struct {
	testing.TB
	Registry *app.Registry // what commands open, and what a test fills
	Aipd     *Aipd
	Dir      string            // a directory of this test, with the configuration in it
	Env      map[string]string // the environment of the command
	Stdin    string
	TTY      bool // every stream is a terminal
	Width    int
	Tick     time.Duration // how far the clock goes on at each look at it

	root    func(*app.App) *cobra.Command
	archive func(context.Context, fleet.ActionID) error
	mu      sync.Mutex
	now     time.Time
}

// Result is how one command line ended.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// New makes a harness whose registry is empty. root assembles the commands.
func New(t testing.TB, root func(*app.App) *cobra.Command) *Harness {
	t.Helper()
	h := &Harness{TB: t, Dir: t.TempDir(), root: root, now: Epoch()}
	r := memory.New(memory.Config{RingKey: []byte("ring key of the test fleet"), CursorKey: []byte("cursor key of the test fleet"), Now: h.Now})
	h.archive = r.Archive
	h.Registry = &app.Registry{Catalog: r, Router: r, Reader: r, Publisher: r, Fleet: r, Uncertain: r, Custody: r, Close: func() {}}
	h.Aipd = newAipd(t, h.Now)
	h.write("token", "test-token\n")
	h.writeKey("operator.pem", seed("operator"))
	h.Env = map[string]string{"AIPCTL_CONFIG": filepath.Join(h.Dir, "config.yaml"), "USER": "tester"}
	h.Configure("")
	return h
}

// Configure writes the configuration with one target, to which more lines may be added.
func (h *Harness) Configure(more string) {
	h.Helper()
	h.write("config.yaml", "current: test\ncontexts:\n  test:\n    aipd: {url: '"+h.Aipd.URL+"', token_file: '"+filepath.Join(h.Dir, "token")+
		"'}\n    operator_key: '"+filepath.Join(h.Dir, "operator.pem")+"'\n    registry: {control_url_env: CONTROL, readonly_url_env: READONLY}\n"+more)
}

func (h *Harness) write(name, text string) {
	h.Helper()
	if err := os.WriteFile(filepath.Join(h.Dir, name), []byte(text), 0o600); err != nil {
		h.Fatal(err)
	}
}

// File writes a file of the test and returns its path.
func (h *Harness) File(name, text string) string {
	h.Helper()
	h.write(name, text)
	return filepath.Join(h.Dir, name)
}

func (h *Harness) writeKey(name string, key []byte) {
	h.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(privateKey(key))
	if err != nil {
		h.Fatal(err)
	}
	h.write(name, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

// Now is the harness's clock.
func (h *Harness) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(h.Tick)
	return h.now
}

// Advance moves the clock.
func (h *Harness) Advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// App makes the surroundings of one command.
func (h *Harness) App(out, errs *bytes.Buffer) *app.App {
	stdio := app.IO{
		In: strings.NewReader(h.Stdin), Out: out, Err: errs, InTTY: h.TTY, OutTTY: h.TTY, ErrTTY: h.TTY, Width: h.Width,
		LookupEnv: func(name string) (string, bool) { v, ok := h.Env[name]; return v, ok },
	}
	return app.New(stdio, h.Now, func(context.Context, app.Target, app.Access) (*app.Registry, error) {
		return h.Registry, nil
	})
}

// Run runs one command line.
func (h *Harness) Run(args ...string) Result {
	h.Helper()
	var out, errs bytes.Buffer
	a := h.App(&out, &errs)
	code := a.Run(h.Context(), h.root(a), args)
	return Result{Code: code, Stdout: out.String(), Stderr: errs.String()}
}

// OK runs a command line that must succeed and returns what it printed.
func (h *Harness) OK(args ...string) string {
	h.Helper()
	r := h.Run(args...)
	if r.Code != 0 {
		h.Fatalf("aipctl %s: exit %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// Document is the envelope of every JSON result.
type Document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Revision uint64 `json:"revision"`
		NextPage string `json:"next_page"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
	Item  json.RawMessage   `json:"item"`
}

// Document reads stdout as exactly one document of the envelope's shape.
func (h *Harness) Document(stdout string) Document {
	h.Helper()
	var d Document
	dec := json.NewDecoder(strings.NewReader(stdout))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		h.Fatalf("stdout is not the JSON envelope: %v\n%s", err, stdout)
	}
	if dec.More() {
		h.Fatalf("something follows the document:\n%s", stdout)
	}
	if d.APIVersion != app.APIVersion || d.Kind == "" || (d.Item == nil) == (d.Items == nil) {
		h.Fatalf("apiVersion, kind, and one of item and items are needed:\n%s", stdout)
	}
	return d
}
