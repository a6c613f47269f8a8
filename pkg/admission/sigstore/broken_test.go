package sigstore_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/sigstore"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// forgery is a bundle that one step alone refuses.
type forgery struct {
	step, want string
	// without is what is met when the step is missing; "" means that it gets through.
	without string
	make    func(t *testing.T) (admission.Bundle, admission.Anchor)
}

func parsePublic(t *testing.T, p publicBundle, from, to string) admission.Bundle {
	t.Helper()
	raw := string(readModule(t, p.file))
	changed := strings.Replace(raw, from, to, 1)
	if from != "" && changed == raw {
		t.Fatalf("%s does not hold %q", p.file, from)
	}
	b, err := sigstore.Verifier{}.Parse([]byte(changed))
	must(t, err)
	return b
}

// mixed is a trusted root with one member of another.
func mixed(t *testing.T, into, from, member string) json.RawMessage {
	t.Helper()
	var a, b map[string]json.RawMessage
	must(t, json.Unmarshal(readModule(t, into), &a))
	must(t, json.Unmarshal(readModule(t, from), &b))
	a[member] = b[member]
	raw, err := json.Marshal(a)
	must(t, err)
	return raw
}

func forgeries() []forgery {
	all := publicBundles()
	js, stamped := all[0], all[3]
	const scaffolding = "pkg/testing/data/trusted-roots/scaffolding.json"
	return []forgery{
		{"observers", "bundle_log_not_evaluated", "timestamp_invalid", func(t *testing.T) (admission.Bundle, admission.Anchor) {
			a := stamped.anchor(t)
			a.Root = nil
			return parsePublic(t, stamped, "", ""), a
		}},
		{"log", "log_entry_invalid", "log_threshold", func(t *testing.T) (admission.Bundle, admission.Anchor) {
			return parsePublic(t, js, `"1692374735"`, `"1692374736"`), js.anchor(t)
		}},
		{"timestamp", "timestamp_invalid", "", func(t *testing.T) (admission.Bundle, admission.Anchor) {
			a := stamped.anchor(t)
			a.Root.TrustedRoot, a.Root.SignedTimestamps = readModule(t, scaffolding), 0
			return parsePublic(t, stamped, "", ""), a
		}},
		{"threshold", "log_threshold", "", func(t *testing.T) (admission.Bundle, admission.Anchor) {
			a := js.anchor(t)
			a.Root.LogEntries = 2
			return parsePublic(t, js, "", ""), a
		}},
		{"chain", "certificate_untrusted", "", func(t *testing.T) (admission.Bundle, admission.Anchor) {
			a := js.anchor(t)
			a.Root.TrustedRoot, a.Root.CertificateLogs = mixed(t, publicGood, scaffolding, "certificateAuthorities"), 0
			return parsePublic(t, js, "", ""), a
		}},
		{"certificate_log", "certificate_log_threshold", "", func(t *testing.T) (admission.Bundle, admission.Anchor) {
			a := js.anchor(t)
			a.Root.TrustedRoot = mixed(t, publicGood, scaffolding, "ctlogs")
			return parsePublic(t, js, "", ""), a
		}},
		{"signature", "signature_invalid", "", func(t *testing.T) (admission.Bundle, admission.Anchor) {
			signer, _ := newKey(t, "ecdsa-p256")
			_, other := newKey(t, "ecdsa-p256")
			raw, err := signer.SignStatement(statement())
			must(t, err)
			b, err := sigstore.Verifier{}.Parse(raw)
			must(t, err)
			return b, admission.Anchor{Key: &other}
		}},
	}
}

// TestBroken_G33_EveryStepIsNoticed breaks the verifier step by step: each missing
// step lets a forgery through, or leaves it to the step that the table names.
func TestBroken_G33_EveryStepIsNoticed(t *testing.T) {
	var covered []string
	for _, f := range forgeries() {
		covered = append(covered, f.step)
		t.Run(f.step, func(t *testing.T) {
			b, a := f.make(t)
			if _, err := (sigstore.Verifier{}).Verify(b, a); fleet.CodeOf(err) != f.want {
				t.Errorf("%v, want %s", err, f.want)
			}
			if _, err := (sigstore.Verifier{}).Without(f.step).Verify(b, a); fleet.CodeOf(err) != f.without {
				t.Errorf("without the step: %v, want %q", err, f.without)
			}
		})
	}
	if !slices.Equal(covered, sigstore.Steps()) {
		t.Errorf("steps %v, forgeries for %v", sigstore.Steps(), covered)
	}
}
