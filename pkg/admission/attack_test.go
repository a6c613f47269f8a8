package admission_test

import (
	"slices"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// attack is one way to get a release admitted that must not be.
type attack struct {
	name string
	do   func(b *bench)
	want string // code of the finding that must be among them
	// also is the second line of defence: codes that still refuse the attack when
	// the check that gives want is missing. Empty means that the check is the only one.
	also []string
	make func(testing.TB) *bench // default newBench
	// instead runs an attack on something else than one package's evaluation; it
	// gives the codes it met.
	instead func(b *bench) []string
}

// attacks is the one table.
func attacks() []attack {
	return slices.Concat(
		packageAttacks(), imageAttacks(), statementAttacks(), signerAttacks(), provenanceAttacks(), sbomAttacks(),
		vulnerabilityAttacks(), conformanceAttacks(), approvalAttacks(),
		bundleAttacks(), keylessAttacks(), releaseAttacks(), manifestAttacks(), coverageAttacks(), revocationAttacks(), registryAttacks(),
	)
}

func (a attack) bench(t testing.TB) *bench {
	if a.make != nil {
		return a.make(t)
	}
	return newBench(t)
}

// TestAttack defends G33 and G34: each attack is refused, and for its own reason.
func TestAttack(t *testing.T) {
	all := attacks()
	seen := map[string]bool{}
	for _, a := range all {
		if seen[a.name] {
			t.Fatalf("two attacks are called %s", a.name)
		}
		seen[a.name] = true
		t.Run("G33_G34/"+a.name, func(t *testing.T) { refused(t, a) })
	}
	if len(all) < 100 {
		t.Errorf("the table has %d attacks", len(all))
	}
}

func refused(t *testing.T, a attack) {
	b := a.bench(t)
	if a.instead != nil {
		if got := a.instead(b); !slices.Contains(got, a.want) {
			t.Fatalf("want %s, met: %v", a.want, got)
		}
		return
	}
	a.do(b)
	verified, found := b.evaluate()
	if !slices.Contains(codes(found), a.want) {
		t.Fatalf("want %s, findings: %v", a.want, found)
	}
	if _, err := verified.ChangeSet("a", "r"); fleet.CodeOf(err) != "admission.not_verified" {
		t.Errorf("a refused package gave a change set: %v", err)
	}
	for _, f := range found {
		if f.Place == "" || f.What == "" || f.Satisfy == "" {
			t.Errorf("finding without place, what or satisfy: %+v", f)
		}
	}
}

// TestAttack_G33_GenuinePackagePasses keeps the table honest: without an attack
// there is no finding.
func TestAttack_G33_GenuinePackagePasses(t *testing.T) {
	for name, make := range map[string]func(testing.TB) *bench{"keys": newBench, "certificates": newCloudBench} {
		t.Run(name, func(t *testing.T) {
			b := make(t)
			verified, found := b.evaluate()
			if len(found) > 0 {
				t.Fatalf("the genuine package is refused: %v", found)
			}
			set, err := verified.ChangeSet("operator:test", "because")
			must(t, err)
			v := set.Versions[0]
			if v.ArtifactDigest != b.artifact || v.Status != fleet.VersionAdmitted || !v.Attestation.Qualified || v.Attestation.TrustRevision != 4 {
				t.Errorf("version %+v", v)
			}
			if v.Attestation.Signers["sbom"] != "build" || v.Attestation.Signers["approval.2"] != "bob" || len(set.Admission.Evidence) != 7 || len(set.Admission.Package) == 0 {
				t.Errorf("attestation %+v, journal %+v", v.Attestation, set.Admission.Evidence)
			}
		})
	}
}

// TestAttack_G33_WithoutItsCheckTheAttackGetsIn tests the table with broken
// verifiers: for each check that the table knows, a verifier that lacks it. Every
// attack on that check must then get in, or meet exactly the second line of defence
// that the table names: a check that can go unnoticed is in no test.
func TestAttack_G33_WithoutItsCheckTheAttackGetsIn(t *testing.T) {
	admitted, deep, all := 0, 0, 0
	for _, a := range attacks() {
		if a.instead != nil {
			continue // these do not go through the evaluation of one package
		}
		all++
		t.Run(a.want+"/"+a.name, func(t *testing.T) {
			b := a.bench(t)
			b.evaluator = b.evaluator.Without(a.want)
			b.limits = b.limits.Without(a.want)
			a.do(b)
			verified, found := b.evaluate()
			got := slices.Compact(slices.Sorted(slices.Values(codes(found))))
			slices.Sort(a.also)
			if !slices.Equal(got, a.also) && (len(got) > 0 || len(a.also) > 0) {
				t.Errorf("without %s: met %q, the table says %q", a.want, got, a.also)
			}
			if len(got) > 0 {
				deep++
				return
			}
			if _, err := verified.ChangeSet("a", "r"); err != nil {
				t.Errorf("without %s the attack should have got in: %v", a.want, err)
			}
			admitted++
		})
	}
	t.Logf("without its check, %d attacks get in and %d meet a second line of defence", admitted, deep)
	if played := admitted + deep; played == all && admitted < 150 {
		t.Errorf("only %d checks are the one thing between an attack and admission", admitted)
	}
}

// anySignature is cryptography that takes every signature: what an attack meets
// when its own key is a trusted one.
type anySignature struct{ admission.Bundles }

func (anySignature) Verify(b admission.Bundle, _ admission.Anchor) (admission.Proof, error) {
	return admission.Proof{Identity: b.Claim}, nil
}
