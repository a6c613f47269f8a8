package admission_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/envelope/mutationtest"
)

// TestMutation_G33_EveryPartOfEveryEvidence changes any one part of each signed document
// of a genuine package: the document is refused in its own slot, and the unchanged
// package passes.
func TestMutation_G33_EveryPartOfEveryEvidence(t *testing.T) {
	b := newBench(t)
	files, err := filepath.Glob(filepath.Join(b.dir, "evidence", "*.sigstore.json"))
	if err != nil || len(files) != 7 {
		t.Fatalf("%v %v", files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sigstore.json")
		t.Run(name, func(t *testing.T) {
			good := b.read("evidence/" + name + ".sigstore.json")
			mutants := mutationtest.Of(t, []byte(good), 23)
			for _, m := range mutants {
				if bytes.Equal(bytes.TrimSpace(m.Text), []byte(strings.TrimSpace(good))) {
					continue // a line break at the end is no part of the document
				}
				must(t, os.WriteFile(file, m.Text, 0o644))
				if !slices.ContainsFunc(b.found(), func(f admission.Finding) bool { return strings.Contains(f.Place, name) }) {
					t.Errorf("%s: %v", m.What, codes(b.found()))
				}
			}
			must(t, os.WriteFile(file, []byte(good), 0o644))
			if found := b.found(); len(found) > 0 || len(mutants) < 100 {
				t.Errorf("the unchanged package: %v; %d changes were tried", found, len(mutants))
			}
		})
	}
}

// TestMutation_G34_EveryByteThatWasReleased changes any one byte of what the evidence is
// about.
func TestMutation_G34_EveryByteThatWasReleased(t *testing.T) {
	b := newBench(t)
	for name := range baseFiles() {
		file := filepath.Join(b.dir, filepath.FromSlash(name))
		good := []byte(b.read(name))
		for i := range good {
			changed := slices.Clone(good)
			changed[i] ^= 1
			must(t, os.WriteFile(file, changed, 0o755))
			if len(b.found()) == 0 {
				t.Errorf("%s, byte %d: admitted", name, i)
			}
		}
		must(t, os.WriteFile(file, good, 0o755))
	}
	if found := b.found(); len(found) > 0 {
		t.Errorf("the unchanged package: %v", found)
	}
}

// found reads and evaluates the package, whatever state it is in.
func (b *bench) found() []admission.Finding {
	p, found := admission.ReadPackage(b.dir, b.limits)
	if len(found) > 0 {
		return found
	}
	_, found = b.evaluator.Evaluate(b.request(p))
	return found
}
