package guests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/dev/localfleet"
	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// mustVariable makes a missing npm or node a failure instead of a reason to skip.
const mustVariable = "AIP_PUBLIC_MCP"

// install fetches a server and what it depends on, exactly as the lock file says, into a
// directory that can be an artifact: regular files alone. Without npm, or without its
// registry, the test is skipped, unless the environment says that it must not be.
func install(t *testing.T, server string) string {
	t.Helper()
	missing := func(format string, args ...any) {
		t.Helper()
		why := fmt.Sprintf(format, args...)
		if os.Getenv(mustVariable) != "" {
			t.Fatalf("%s is set, and %s", mustVariable, why)
		}
		t.Skipf("the public server %q cannot be had: %s; set %s=1 to make this a failure", server, why, mustVariable)
	}
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			missing("there is no %s", program)
		}
	}
	if out, err := npm(t, ".", "ping", "--fetch-retries=0", "--fetch-timeout=10000"); err != nil {
		missing("npm does not reach its registry: %v\n%s", err, out)
	}
	dir := filepath.Join(t.TempDir(), server)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "npm", server))); err != nil {
		t.Fatal(err)
	}
	out, err := npm(t, dir, "ci", "--omit=dev", "--ignore-scripts", "--no-bin-links", "--no-audit", "--no-fund", "--prefer-offline")
	if err != nil {
		if strings.Contains(string(out), "EINTEGRITY") {
			t.Fatalf("npm delivered other bytes than the lock file names:\n%s", out)
		}
		missing("npm ci failed: %v\n%s", err, out)
	}
	return dir
}

// npm runs npm in a directory, bounded.
func npm(t *testing.T, dir string, args ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", args...)
	cmd.Dir, cmd.WaitDelay = dir, 5*time.Second
	return cmd.CombinedOutput()
}

// bill lists the packages of a lock file as a bill of materials of the artifact.
func bill(t *testing.T, server string) func(fleet.Digest) any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "npm", server, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct {
			Version string `json:"version"`
			Licence string `json:"license"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(text, &lock); err != nil || len(lock.Packages) < 50 {
		t.Fatalf("%d packages: %v", len(lock.Packages), err)
	}
	return func(artifact fleet.Digest) any {
		packages := []tree{{
			"SPDXID": "SPDXRef-artifact", "name": server, "versionInfo": "1.0.0", "downloadLocation": "NOASSERTION",
			"licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
			"checksums": []tree{{"algorithm": "SHA256", "checksumValue": artifact.Hex()}},
		}}
		for path, p := range lock.Packages {
			_, name, found := strings.Cut(path, "node_modules/")
			if !found {
				continue
			}
			licence := p.Licence
			if licence == "" || strings.HasPrefix(licence, "SEE LICENSE IN") { // npm's phrase, not a licence
				licence = "NOASSERTION"
			}
			packages = append(packages, tree{
				"SPDXID": fmt.Sprintf("SPDXRef-npm-%d", len(packages)), "name": name, "versionInfo": p.Version, "downloadLocation": "NOASSERTION",
				"licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION",
			})
		}
		return tree{
			"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": server,
			"documentNamespace": "urn:guests:" + artifact.Hex(), "documentDescribes": []string{"SPDXRef-artifact"}, "packages": packages,
			"creationInfo": tree{"created": time.Now().UTC().Format(time.RFC3339), "creators": []string{"Tool: guests"}},
		}
	}
}

// use is one call of a tool and what must come of it.
type use struct {
	tool  string
	input tree
	want  action.State
	shows string // in the result document
}

// TestPublicMCP_G33_EveryToolOfThePublicServers packs the reference servers "everything"
// and "filesystem", signs and admits them, and calls every tool that was discovered,
// through aipd, on real processes.
func TestPublicMCP_G33_EveryToolOfThePublicServers(t *testing.T) {
	everything, filesystem := install(t, "everything"), install(t, "filesystem")
	r := newRig(t)
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	files := t.TempDir()
	if files, err = filepath.EvalSymlinks(files); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(files, name) }
	r.write(at("hello.txt"), []byte("hello\nworld\n"))
	r.write(at("old.txt"), []byte("old\n"))
	for _, s := range []struct {
		name, dir string
		args      []string
		uses      []use
	}{
		{"everything", everything, nil, usesOfEverything()},
		{"filesystem", filesystem, []string{files}, usesOfFilesystem(at)},
	} {
		t.Run(s.name, func(t *testing.T) {
			r := r.within(t)
			g := guest{
				name: s.name, artifact: s.dir, interpreter: "node", args: s.args, bill: bill(t, s.name),
				entrypoint: "node_modules/@modelcontextprotocol/server-" + s.name + "/dist/index.js",
			}
			release, manifest := r.admit(g)
			r.seated(seat{
				guest: g, release: release, manifest: manifest, name: s.name, tenant: localfleet.Acme,
				config: tree{"connector": tree{"args": s.args, "interpreters": tree{"node": node}}},
			})
			r.everyTool(s.name, manifest, s.uses)
		})
	}
	if text, err := os.ReadFile(at("moved.txt")); err != nil || string(text) != "new\n" {
		t.Errorf("the effects are not in the directory: %q, %v", text, err)
	}
}

// everyTool makes the calls and insists that each discovered tool is among them.
func (r *rig) everyTool(name string, m fleet.Manifest, uses []use) {
	r.Helper()
	var called []string
	for _, u := range uses {
		called = append(called, u.tool)
		v := r.call(localfleet.Acme, name+":"+u.tool, u.input, 30*time.Second)
		if v.State != u.want || !bytes.Contains(v.Result, []byte(u.shows)) {
			r.Errorf("%s is %s and says %.600s %+v; want %s and %q", u.tool, v.State, v.Result, v.Problem, u.want, u.shows)
		}
	}
	discovered := tools(m)
	slices.Sort(discovered)
	slices.Sort(called)
	if called = slices.Compact(called); !slices.Equal(called, discovered) {
		r.Errorf("called %v\ndiscovered %v", called, discovered)
	}
	r.Logf("%s: %d tools discovered and called", name, len(discovered))
}

func usesOfEverything() []use {
	return []use{
		{"echo", tree{"message": "hi there"}, action.Completed, "hi there"},
		{"get-annotated-message", tree{"messageType": "success", "includeImage": true}, action.Completed, "image/png"},
		{"get-env", tree{}, action.Completed, "PATH"},
		{"get-resource-links", tree{"count": 2}, action.Completed, "resource_link"},
		{"get-resource-reference", tree{"resourceType": "Text", "resourceId": 1}, action.Completed, "resource"},
		{"get-structured-content", tree{"location": "Chicago"}, action.Completed, "temperature"},
		{"get-sum", tree{"a": 19, "b": 23}, action.Completed, "42"},
		{"get-tiny-image", tree{}, action.Completed, "image/png"},
		{"gzip-file-as-resource", tree{"name": "x.gz", "data": "data:text/plain,hello", "outputType": "resource"}, action.Completed, "application/gzip"},
		{"toggle-simulated-logging", tree{}, action.Completed, "simulated"},
		{"toggle-subscriber-updates", tree{}, action.Completed, "ubscri"},
		{"trigger-long-running-operation", tree{"duration": 1, "steps": 2}, action.Completed, "completed"},
		// It takes calls as tasks alone, which the fleet does not offer: a definite refusal.
		{"simulate-research-query", tree{"topic": "fleets"}, action.Failed, "task"},
	}
}

func usesOfFilesystem(at func(string) string) []use {
	return []use{
		{"list_allowed_directories", tree{}, action.Completed, filepath.Base(at(""))},
		{"read_file", tree{"path": at("hello.txt")}, action.Completed, "world"},
		{"read_text_file", tree{"path": at("hello.txt"), "head": 1}, action.Completed, "hello"},
		{"read_media_file", tree{"path": at("hello.txt")}, action.Completed, "aGVsbG8"},
		{"read_multiple_files", tree{"paths": []string{at("hello.txt"), at("old.txt")}}, action.Completed, "old"},
		{"write_file", tree{"path": at("note.txt"), "content": "note\n"}, action.Completed, "note.txt"},
		{"edit_file", tree{"path": at("old.txt"), "edits": []tree{{"oldText": "old", "newText": "new"}}}, action.Completed, "+new"},
		{"create_directory", tree{"path": at("sub")}, action.Completed, "sub"},
		{"move_file", tree{"source": at("old.txt"), "destination": at("moved.txt")}, action.Completed, "moved.txt"},
		{"list_directory", tree{"path": at("")}, action.Completed, "moved.txt"},
		{"list_directory_with_sizes", tree{"path": at("")}, action.Completed, "hello.txt"},
		{"directory_tree", tree{"path": at("")}, action.Completed, "note.txt"},
		{"search_files", tree{"path": at(""), "pattern": "*.txt"}, action.Completed, "hello.txt"},
		{"get_file_info", tree{"path": at("hello.txt")}, action.Completed, "size"},
		// What leads out of its directory is refused by the server: a definite failure.
		{"read_file", tree{"path": "/etc/hostname"}, action.Failed, "outside allowed directories"},
	}
}
