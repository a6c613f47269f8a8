package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/aipfleet/aipfleet/cmd/aipctl/apptest"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// TestFleetScripts_G40 runs the scripts of testdata/fleet, one after the other: the program
// as it is built, against a PostgreSQL registry of its own with the test fleet in it.
// Beside the usual commands a script has
//
//	exits CODE PROGRAM ARG…   the program ends with that exit code
//	offline REPLICA           the replica's host leaves
//	settle ACTION             the action's attempt completes
//	declare REPLICA           one more replica of cinst_acme, whose host is ready
func TestFleetScripts_G40(t *testing.T) {
	scripts, err := filepath.Glob("testdata/fleet/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts: %v", len(scripts), err)
	}
	for _, script := range scripts {
		t.Run(filepath.Base(script), func(t *testing.T) { fleetScript(t, filled(t), script) })
	}
}

func fleetScript(t *testing.T, h *apptest.Harness, script string) {
	testscript.Run(t, testscript.Params{
		Files: []string{script}, UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("AIPCTL_CONFIG", h.Env["AIPCTL_CONFIG"])
			env.Setenv("USER", "tester")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"declare": func(_ *testscript.TestScript, _ bool, args []string) { h.More(args[0]) },
			"offline": func(_ *testscript.TestScript, _ bool, args []string) { h.Offline(args[0]) },
			"settle": func(_ *testscript.TestScript, _ bool, args []string) {
				h.Settle(args[0], fleet.Settlement{Outcome: fleet.OutcomeCompleted, Code: "dispatch.completed"})
			},
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code, err := 0, ts.Exec(args[1], args[2:]...)
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		code = ended.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}
