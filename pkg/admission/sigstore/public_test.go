package sigstore_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/admission/sigstore"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// module is where sigstore-go lies, with the bundles it ships.
func module(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/sigstore/sigstore-go").Output()
	must(t, err)
	return strings.TrimSpace(string(out))
}

func readModule(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(module(t), filepath.FromSlash(name)))
	must(t, err)
	return data
}

const (
	githubIssuer = "https://token.actions.githubusercontent.com"
	publicGood   = "pkg/testing/data/trusted-roots/public-good.json"
)

// publicBundle is a real bundle with the anchor under which it is genuine.
type publicBundle struct {
	file, trusted, key string
	root               admission.Root // thresholds
	identity           admission.Identity
	observed           []string
}

func publicBundles() []publicBundle {
	logged := admission.Root{ID: "public-good", LogEntries: 1, Timestamps: 1, CertificateLogs: 1}
	return []publicBundle{
		{
			file: "pkg/testing/data/bundles/sigstore.js@2.0.0-provenance.sigstore.json", trusted: publicGood, root: logged,
			identity: admission.Identity{Issuer: githubIssuer, Subject: "https://github.com/sigstore/sigstore-js/.github/workflows/release.yml@refs/heads/main"},
			observed: []string{"log 2023-08-18T16:05:35Z"},
		},
		{
			file: "pkg/testing/data/bundles/dsse.sigstore.json", trusted: publicGood, root: logged,
			identity: admission.Identity{Issuer: "https://github.com/login/oauth", Subject: "brian@dehamer.com"},
			observed: []string{"log 2022-11-09T23:00:36Z"},
		},
		{
			file: "pkg/testing/data/bundles/othername.sigstore.json", trusted: "pkg/testing/data/trusted-roots/scaffolding.json",
			root:     admission.Root{ID: "scaffolding", LogEntries: 1, Timestamps: 1, InclusionProofs: true},
			identity: admission.Identity{Issuer: "http://oidc.local:8080", Subject: "foo!oidc.local"},
			observed: []string{"log 2024-07-12T19:06:29Z"},
		},
		{
			file: "pkg/testing/data/bundles/public-key-validity.sigstore.json", trusted: "pkg/testing/data/trusted-roots/public-key-validity.json",
			key: "pkg/testing/data/public-keys/public-key-validity.pem", root: admission.Root{ID: "tsa", SignedTimestamps: 1},
			observed: []string{"timestamp 2026-06-04T17:43:29Z"},
		},
		{
			file: "examples/bundle-publish.json", trusted: publicGood, key: "examples/publish_key.pub", root: admission.Root{ID: "public-good", LogEntries: 1},
			observed: []string{"log 2023-04-18T17:45:16Z"},
		},
		{
			file: "examples/bundle-provenance.json", trusted: publicGood, root: logged,
			identity: admission.Identity{Issuer: githubIssuer, Subject: "https://github.com/sigstore/sigstore-js/.github/workflows/release.yml@refs/heads/main"},
			observed: []string{"log 2023-04-18T17:45:12Z"},
		},
	}
}

func (p publicBundle) anchor(t *testing.T) admission.Anchor {
	t.Helper()
	root := p.root
	root.TrustedRoot = readModule(t, p.trusted)
	a := admission.Anchor{Root: &root}
	if p.key != "" {
		key, err := admission.NewKey("public", string(readModule(t, p.key)))
		must(t, err)
		a.Key = &key
	}
	return a
}

// TestPublic_G33_RealBundlesVerifyOffline: the bundles of real builds verify against
// the roots under which they were made, and name who made them and when.
func TestPublic_G33_RealBundlesVerifyOffline(t *testing.T) {
	for _, p := range publicBundles() {
		t.Run(filepath.Base(p.file), func(t *testing.T) {
			b, err := sigstore.Verifier{}.Parse(readModule(t, p.file))
			must(t, err)
			proof, err := sigstore.Verifier{}.Verify(b, p.anchor(t))
			must(t, err)
			if p.key == "" && (proof.Identity == nil || *proof.Identity != p.identity || *b.Claim != p.identity) {
				t.Errorf("identity %+v", proof.Identity)
			}
			var seen []string
			for _, o := range proof.Observed {
				seen = append(seen, o.By+" "+o.At.Format(time.RFC3339))
			}
			if strings.Join(seen, ", ") != strings.Join(p.observed, ", ") {
				t.Errorf("observed %q, want %q", seen, p.observed)
			}
		})
	}
}

// TestPublic_G33_RealBundlesAreRefusedUnderAnotherRoot: genuine elsewhere is nothing here.
func TestPublic_G33_RealBundlesAreRefusedUnderAnotherRoot(t *testing.T) {
	want := map[string]string{
		"sigstore.js@2.0.0-provenance.sigstore.json": "log_unknown",
		"dsse.sigstore.json":                         "log_unknown",
		"othername.sigstore.json":                    "log_unknown",
		"public-key-validity.sigstore.json":          "timestamp_invalid",
		"bundle-publish.json":                        "log_unknown",
		"bundle-provenance.json":                     "log_unknown",
	}
	for _, p := range publicBundles() {
		t.Run(filepath.Base(p.file), func(t *testing.T) {
			other := p
			other.trusted = publicGood
			if p.trusted == publicGood {
				other.trusted = "pkg/testing/data/trusted-roots/scaffolding.json"
			}
			b, err := sigstore.Verifier{}.Parse(readModule(t, p.file))
			must(t, err)
			if _, err := (sigstore.Verifier{}).Verify(b, other.anchor(t)); fleet.CodeOf(err) != want[filepath.Base(p.file)] {
				t.Errorf("under another root: %v", err)
			}
		})
	}
}

// TestPublic_G33_ThresholdsComeFromThePolicy: one log is not two.
func TestPublic_G33_ThresholdsComeFromThePolicy(t *testing.T) {
	p := publicBundles()[0]
	b, err := sigstore.Verifier{}.Parse(readModule(t, p.file))
	must(t, err)
	cases := map[string]struct {
		change func(*admission.Root)
		want   string
	}{
		"two logs":             {func(r *admission.Root) { r.LogEntries = 2 }, "log_threshold"},
		"a signed timestamp":   {func(r *admission.Root) { r.SignedTimestamps = 1 }, "timestamp_threshold"},
		"two observers":        {func(r *admission.Root) { r.Timestamps = 2 }, "time_unknown"},
		"two certificate logs": {func(r *admission.Root) { r.CertificateLogs = 2 }, "certificate_log_threshold"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := p.anchor(t)
			c.change(a.Root)
			if _, err := (sigstore.Verifier{}).Verify(b, a); fleet.CodeOf(err) != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func TestPublic_G33_TwoSignaturesInOneEnvelope(t *testing.T) {
	raw := readModule(t, "pkg/testing/data/bundles/dsse-2sigs.sigstore.json")
	if _, err := (sigstore.Verifier{}).Parse(raw); fleet.CodeOf(err) != "bundle_signature_count" {
		t.Errorf("%v", err)
	}
}

// TestPublic_G33_ChangedBundles changes one thing of a real bundle at a time.
func TestPublic_G33_ChangedBundles(t *testing.T) {
	type object = map[string]any
	entry := func(b object) object {
		return b["verificationMaterial"].(object)["tlogEntries"].([]any)[0].(object)
	}
	p := publicBundles()[0]
	cases := map[string]struct {
		change func(object)
		want   string
	}{
		"proof without a checkpoint": {func(b object) { delete(entry(b)["inclusionProof"].(object), "checkpoint") }, "log_proof_without_checkpoint"},
		"one log twice": {func(b object) {
			m := b["verificationMaterial"].(object)
			m["tlogEntries"] = append(m["tlogEntries"].([]any), entry(b))
		}, "log_repeated"},
		"log time moved":        {func(b object) { entry(b)["integratedTime"] = "1692374799" }, "log_entry_invalid"},
		"promise of another":    {func(b object) { entry(b)["inclusionPromise"].(object)["signedEntryTimestamp"] = "MEUCIQ==" }, "log_entry_invalid"},
		"proof of another tree": {func(b object) { entry(b)["inclusionProof"].(object)["rootHash"] = strings.Repeat("A", 43) + "=" }, "log_entry_invalid"},
		"without its log":       {func(b object) { delete(b["verificationMaterial"].(object), "tlogEntries") }, "log_threshold"},
		"payload changed":       {func(b object) { b["dsseEnvelope"].(object)["payload"] = "e30=" }, "log_entry_of_another"},
		"signature changed":     {func(b object) { b["dsseEnvelope"].(object)["signatures"].([]any)[0].(object)["sig"] = "MEUCIQ==" }, "log_entry_of_another"},
		"certificate is no such": {func(b object) {
			b["verificationMaterial"].(object)["x509CertificateChain"].(object)["certificates"].([]any)[0].(object)["rawBytes"] = "MEUCIQ=="
		}, "certificate_malformed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var doc object
			must(t, json.Unmarshal(readModule(t, p.file), &doc))
			c.change(doc)
			raw, err := json.Marshal(doc)
			must(t, err)
			b, err := sigstore.Verifier{}.Parse(raw)
			if err == nil {
				_, err = sigstore.Verifier{}.Verify(b, p.anchor(t))
			}
			if fleet.CodeOf(err) != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func TestVerifier_G33_RootsThatTrustNobody(t *testing.T) {
	for _, doc := range []string{"", "{}", `{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`} {
		if err := (sigstore.Verifier{}).CheckRoot([]byte(doc)); fleet.CodeOf(err) != "root_malformed" {
			t.Errorf("%q: %v", doc, err)
		}
	}
	must(t, sigstore.Verifier{}.CheckRoot(readModule(t, publicGood)))
}
