// Package ticketdesk_test answers: do the release and the fleet of the example say
// what the rest of the example does?
package ticketdesk_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/aipfleet/aipfleet/examples/ticketdesk"
	"github.com/aipfleet/aipfleet/examples/ticketdesk/desk"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/sigstore"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

type document struct {
	Quotas    []fleet.QuotaPolicy       `json:"quotas"`
	Instances []fleet.ConnectorInstance `json:"instances"`
	Replicas  []fleet.Replica           `json:"replicas"`
	Bindings  []fleet.CapabilityBinding `json:"bindings"`
}

var placeholder = regexp.MustCompile(`\$\{[A-Z0-9_]+\}`)

func readFleet(t *testing.T) (document, int) {
	t.Helper()
	text, err := os.ReadFile("fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	keys := placeholder.FindAll(text, -1)
	text = placeholder.ReplaceAll(text, []byte("did:key:zExample"))
	var loose any
	if err := yaml.Unmarshal(text, &loose); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(loose)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.DisallowUnknownFields()
	var doc document
	if err := decoder.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return doc, len(keys)
}

func readRelease(t *testing.T) admission.Release {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("release", "release.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	release, err := admission.ParseRelease(text)
	if err != nil {
		t.Fatal(err)
	}
	return release
}

// Each tenant has an account of its own, and every chain of the file is closed:
// a name that is used is declared.
func TestFleet_G08_EveryChainIsClosedAndStaysInItsTenant(t *testing.T) {
	doc, keys := readFleet(t)
	release := readRelease(t)
	quotas := map[string]bool{}
	for _, q := range doc.Quotas {
		quotas[q.Ref] = true
	}
	tenants := map[fleet.InstanceID]fleet.TenantID{}
	for _, i := range doc.Instances {
		tenants[i.ID] = i.Tenant
		if i.Type != release.Type.ID || len(i.Serving) != 1 || i.Serving[0].Version != release.VersionID {
			t.Errorf("%s serves %v of %s; the release is %s of %s", i.ID, i.Serving, i.Type, release.VersionID, release.Type.ID)
		}
	}
	zones := map[fleet.Topology]bool{}
	for _, r := range doc.Replicas {
		zones[r.Topology] = true
		if _, declared := tenants[r.Instance]; !declared || r.Version != release.VersionID || r.Capacity == 0 {
			t.Errorf("replica %s: instance %s, version %s, capacity %d", r.ID, r.Instance, r.Version, r.Capacity)
		}
	}
	for _, b := range doc.Bindings {
		if tenants[b.Instance] != b.Tenant || !quotas[b.QuotaPolicyRef] || !b.Enabled {
			t.Errorf("binding %s of %s: instance %s is of %q, quota %q", b.Capability, b.Tenant, b.Instance, tenants[b.Instance], b.QuotaPolicyRef)
		}
	}
	if len(tenants) != 2 || len(doc.Replicas) != 3 || len(zones) != 2 || len(doc.Bindings) != 12 || keys != 3 {
		t.Errorf("%d instances, %d replicas in %d places with %d keys, %d bindings; want 2, 3, 2, 3 and 12",
			len(tenants), len(doc.Replicas), len(zones), keys, len(doc.Bindings))
	}
}

func TestFleet_G38_TheToolsWithEffectsAndTheReconcileToolAreBound(t *testing.T) {
	doc, _ := readFleet(t)
	bound := map[string]int{}
	for _, b := range doc.Bindings {
		bound[b.Capability.String()]++
	}
	for _, tool := range []string{desk.OpenTicketTool, desk.CommentTicketTool, desk.CloseTicketTool, "get_ticket", "list_tickets", "find_operation"} {
		if bound["ticketdesk:"+tool] != 2 {
			t.Errorf("ticketdesk:%s is bound %d times, want once for each tenant", tool, bound["ticketdesk:"+tool])
		}
	}
}

// The policy asks for every kind of evidence there is, and each key may do one thing.
func TestPolicy_G33_EverySlotHasARule(t *testing.T) {
	text := string(ticketdesk.Policy())
	for _, name := range placeholder.FindAllString(text, -1) {
		pair, err := sigstore.GenerateKey("ed25519")
		if err != nil {
			t.Fatal(err)
		}
		text = strings.Replace(text, name, strings.ReplaceAll(string(pair.Public), "\n", `\n`), 1)
	}
	policy, err := admission.ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		admission.SlotSignature, admission.SlotProvenance, admission.SlotSBOM, admission.SlotVulnerability, admission.SlotConformance, admission.SlotApproval,
	}
	if got := policy.Slots(); !slices.Equal(got, want) || len(policy.Keys()) != 6 {
		t.Errorf("slots %v, %d keys", got, len(policy.Keys()))
	}
}
