// Package pkg_test holds the architecture diagram as a test.
package pkg_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/aipfleet/aipfleet/"

// layers is the diagram, from the bottom to the top: a package may import packages
// of lower layers only, and of its own layer only where peers says so. A package that
// is not in the diagram fails the test: place it first, then write it.
var layers = []struct {
	name     string
	packages []string
	peers    bool // packages of this layer may import each other
}{
	{"0 words", []string{"pkg/fleet", "pkg/crashpoint"}, false},
	{"1 rules and wire", []string{
		"pkg/envelope", "pkg/protocol", "pkg/peer", "pkg/oneshot", "pkg/catalog", "pkg/routing", "pkg/lease", "pkg/settlement",
		"schema", "schema/json",
	}, true},
	{"2 contracts", []string{"pkg/registry", "pkg/admission", "pkg/action", "pkg/connector"}, true},
	{"3 stores and adapters", []string{
		"pkg/registry/memory", "pkg/registry/postgres", "pkg/registry/postgres/migrate",
		"pkg/action/memory", "pkg/action/postgres", "pkg/admission/sigstore", "pkg/admission/oci", "pkg/connector/mcp",
		"pkg/connector/http", "pkg/connector/exec",
		"pkg/pgcluster", "pkg/host/journal", "pkg/host/secret",
	}, false},
	{"4 planes", []string{
		"pkg/fairness", "pkg/dispatch", "pkg/gateway", "pkg/lifecycle", "pkg/host", "pkg/reconcile", "pkg/retention",
	}, false},
	{"5 client and host process", []string{"pkg/client", "pkg/host/hostmain"}, false},
	{"6 dashboard", []string{"tui"}, true},
	{"7 programs", []string{"cmd/...", "examples/...", "scripts/..."}, true},
	{"test suites", []string{
		"pkg/registry/registrytest", "pkg/peer/hostiletest", "pkg/envelope/mutationtest", "pkg/action/actiontest",
		"pkg/pgcluster/pgclustertest",
	}, false},
}

// allowed lists the edges that the diagram would forbid, each with its reason.
var allowed = map[string]string{
	"pkg/registry/postgres/migrate -> pkg/registry/postgres": "migrations state the schema range that the store supports",
	"pkg/host -> pkg/host/journal":                           "the journal is the host's own memory, split off for its fault seams",
	"pkg/host -> pkg/host/secret":                            "the host hands secrets to its connector and to nobody else",
	"pkg/dispatch -> pkg/fairness":                           "a permit comes before a route",
	"pkg/gateway -> pkg/dispatch":                            "the gateway submits to the engine that dispatch owns",
	"pkg/gateway -> pkg/fairness":                            "the metrics show how full the waiting room is",
	"pkg/reconcile -> pkg/dispatch":                          "a status query is signed and classified as any dispatch is",
	"pkg/host -> pkg/lifecycle":                              "a host keeps its own lease",
}

// links says what a program may never contain, whatever the path by which it would come in.
var links = map[string][]string{
	"cmd/aiphost": {"github.com/jackc/pgx", "github.com/pressly/goose", "github.com/sigstore/", "github.com/charmbracelet/bubbletea"},
	"cmd/aipd": {
		"github.com/sigstore/", "github.com/pressly/goose", "github.com/charmbracelet/", module + "tui",
		module + "pkg/connector/", module + "pkg/admission/sigstore",
	},
}

// owners says which packages alone may import a library.
var owners = map[string][]string{
	"github.com/jackc/pgx/":       {"pkg/registry/postgres", "pkg/registry/postgres/migrate", "pkg/action/postgres", "pkg/pgcluster", "pkg/pgcluster/pgclustertest", "cmd/..."},
	"github.com/sigstore/":        {"pkg/admission/sigstore"},
	"oras.land/":                  {"pkg/admission/oci", "cmd/aipctl/release"},
	"github.com/pressly/goose/":   {"pkg/registry/postgres/migrate"},
	"go.etcd.io/bbolt":            {"pkg/host/journal", "examples/..."},
	"github.com/charmbracelet/":   {"tui", "cmd/aipctl/..."},
	"github.com/spf13/cobra":      {"cmd/..."},
	"github.com/olekukonko/":      {"cmd/aipctl/..."},
	"modelcontextprotocol/go-sdk": {"pkg/connector/mcp", "cmd/aipctl/release", "examples/..."},
}

type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, module)
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("go list found only %d packages: the layout was not checked", len(all))
	}
	return all
}

func matches(pattern, pkg string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == dir || strings.HasPrefix(pkg, dir+"/")
	}
	return pattern == pkg
}

func layerOf(pkg string) int {
	for i, l := range layers {
		if slices.ContainsFunc(l.packages, func(p string) bool { return matches(p, pkg) }) {
			return i
		}
	}
	return -1
}

// TestLayout_LowerNeverImportsHigher is the diagram (see ARCHITECTURE.md): it keeps
// the six authorities apart in the code (G20).
func TestLayout_LowerNeverImportsHigher(t *testing.T) {
	for _, p := range list(t) {
		if p.ImportPath == "pkg" {
			continue
		}
		from := layerOf(p.ImportPath)
		if from < 0 {
			t.Errorf("%s has no place in the architecture; put it into a layer of this diagram first", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			checkEdge(t, p.ImportPath, from, imp)
		}
	}
}

func checkEdge(t *testing.T, pkg string, from int, imported string) {
	to, ours := strings.CutPrefix(imported, module)
	if !ours {
		return
	}
	if _, ok := allowed[pkg+" -> "+to]; ok {
		return
	}
	switch at := layerOf(to); {
	case at > from:
		t.Errorf("%s (layer %s) imports %s of the higher layer %s: a lower layer never knows a higher one", pkg, layers[from].name, to, layers[at].name)
	case at == from && !layers[from].peers:
		t.Errorf("%s imports %s of its own layer %s: these packages stand side by side and meet only in cmd", pkg, to, layers[from].name)
	case strings.HasPrefix(pkg, "pkg/") && layers[from].name == "4 planes" && at == 3:
		t.Errorf("%s (a plane) imports %s (a store or adapter): planes know contracts, cmd wires the stores", pkg, to)
	}
}

// TestLayout_G20_ProgramsLinkOnlyWhatTheirPlaneNeeds: a host cannot reach the
// registry, and the central daemon cannot admit or migrate, because the code is not in them.
func TestLayout_G20_ProgramsLinkOnlyWhatTheirPlaneNeeds(t *testing.T) {
	seen := 0
	for _, p := range list(t) {
		banned, ok := links[p.ImportPath]
		if !ok {
			continue
		}
		seen++
		for _, dep := range p.Deps {
			for _, b := range banned {
				if strings.HasPrefix(dep, b) {
					t.Errorf("%s links %s: it may never contain %s", path.Base(p.ImportPath), dep, b)
				}
			}
		}
	}
	if seen != len(links) {
		t.Fatalf("found %d of %d programs: nothing was checked for the others", seen, len(links))
	}
}

// TestLayout_G20_OneOwnerPerLibrary: only the named packages see pgx, sigstore, goose and the rest.
func TestLayout_G20_OneOwnerPerLibrary(t *testing.T) {
	for _, p := range list(t) {
		for _, imp := range p.Imports {
			for lib, who := range owners {
				if strings.Contains(imp, lib) && !slices.ContainsFunc(who, func(w string) bool { return matches(w, p.ImportPath) }) {
					t.Errorf("%s imports %s: only %s may", p.ImportPath, imp, strings.Join(who, ", "))
				}
			}
		}
	}
}

// TestLayout_NoDrawers: a package is named after the question it answers.
func TestLayout_NoDrawers(t *testing.T) {
	for _, p := range list(t) {
		for _, bad := range []string{"util", "utils", "common", "helper", "helpers", "manager", "base", "impl", "misc"} {
			if path.Base(p.ImportPath) == bad {
				t.Errorf("%s is a drawer, not an answer: name it after what it owns", p.ImportPath)
			}
		}
	}
}
