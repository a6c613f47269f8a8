package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aipfleet/aipfleet/cmd/aipctl/apptest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func populated(t *testing.T) *apptest.Harness {
	t.Helper()
	h := apptest.New(t, root)
	h.Populate()
	return h
}

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got), rewrite with -update when it is meant:\n%s", name, diff)
	}
}

// TestViews_G40_EveryViewIsGolden shows each view of the test fleet as it must read.
func TestViews_G40_EveryViewIsGolden(t *testing.T) {
	h := populated(t)
	for name, line := range map[string]string{
		"get-types":           "get types",
		"get-versions":        "get versions",
		"get-instances":       "get instances",
		"get-replicas":        "get replicas",
		"get-replicas-wide":   "get replicas -o wide",
		"get-bindings":        "get bindings --tenant acme",
		"get-quotas":          "get quotas",
		"get-capabilities":    "get capabilities",
		"get-tenants":         "get tenants",
		"get-routes":          "get routes",
		"get-admissions":      "get admissions",
		"get-reconciliations": "get reconciliations",
		"get-trust":           "get trust",
		"get-events":          "get events",
		"get-columns":         "get replicas --columns id,zone,peer.trust_domain --sort-by -zone",
		"get-names":           "get bindings -o name",
		"get-yaml":            "get types -o yaml",
		"get-json":            "get instances cinst_acme -o json",
		"describe-replica":    "describe replica crepl_acme_a",
		"describe-instance":   "describe instance cinst_acme",
		"describe-version":    "describe version cver_desk1",
		"describe-binding":    "describe binding acme desk:open cinst_acme",
		"describe-tenant":     "describe tenant acme",
		"describe-route":      "describe route act_held",
		"route-inspect-done":  "route inspect act_done",
		"route-inspect-held":  "route inspect act_held",
		"route-inspect-lost":  "route inspect act_lost",
		"route-explain":       "route explain --tenant acme --capability desk:open --action act_new --zone b --region north",
		"route-list":          "route list --tenant acme",
		"reconcile-list":      "reconcile list",
		"reconcile-show":      "reconcile show act_lost",
		"events":              "events",
		"audit-log":           "audit log",
		"explain-code":        "explain publish.revision_moved",
		"explain-noun":        "explain replica",
		"drain-dry-run":       "drain replica crepl_acme_a --dry-run",
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, h.OK(strings.Fields(line)...)) })
	}
}

// TestViews_G18_AccessibleOutputIsLabelAndValue shows that ACCESSIBLE=1 lays nothing out.
func TestViews_G18_AccessibleOutputIsLabelAndValue(t *testing.T) {
	h := populated(t)
	h.Env["ACCESSIBLE"] = "1"
	golden(t, "accessible-get", h.OK("get", "instances"))
	golden(t, "accessible-describe", h.OK("describe", "tenant", "acme"))
}

// TestHelp_G40_CommandsAreGrouped shows the first screen of aipctl.
func TestHelp_G40_CommandsAreGrouped(t *testing.T) {
	h := apptest.New(t, root)
	golden(t, "help", h.OK("--help"))
	if got := h.OK(); got != h.OK("--help") {
		t.Errorf("aipctl alone does not show the help:\n%s", got)
	}
}
