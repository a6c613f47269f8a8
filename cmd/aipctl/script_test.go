package main

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
)

// TestMain lets the scripts run this program, and ends the database server that the
// other tests share.
func TestMain(m *testing.M) {
	testscript.Main(database{m}, map[string]func(){
		"aipctl": func() { os.Exit(run(context.Background(), os.Args[1:], os.LookupEnv, terminal())) },
	})
}

type database struct{ m *testing.M }

func (d database) Run() int { return pgclustertest.Main(d.m) }

// TestScripts_G40 runs the scripts of testdata/script: usage, errors, exit codes.
func TestScripts_G40(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", UpdateScripts: *update})
}
