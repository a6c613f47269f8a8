package admission_test

import (
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/admission"
)

// BenchmarkEvaluate is what it costs to judge one package with all six slots filled:
// signed with keys, and with provenance by a short-lived certificate that is logged and
// stamped. Reading the package is measured by itself.
func BenchmarkEvaluate(b *testing.B) {
	for _, c := range []struct {
		name string
		make func(testing.TB) *bench
	}{{"keyed", newBench}, {"certificate", newCloudBench}} {
		b.Run(c.name, func(b *testing.B) {
			w := c.make(b)
			w.settle()
			request := w.request(w.pkg())
			for b.Loop() {
				if _, found := w.evaluator.Evaluate(request); len(found) > 0 {
					b.Fatal(found)
				}
			}
		})
	}
	b.Run("read", func(b *testing.B) {
		w := newBench(b)
		for b.Loop() {
			if _, found := admission.ReadPackage(w.dir, admission.Limits{}); len(found) > 0 {
				b.Fatal(found)
			}
		}
	})
}

// BenchmarkEvaluateLargeBill is the cost of a bill of materials with 5000 components.
func BenchmarkEvaluateLargeBill(b *testing.B) {
	w := newBench(b)
	part := `{"SPDXID": "SPDXRef-lib", "name": "lib", "licenseConcluded": "MIT OR AGPL-3.0-only"}`
	many := strings.TrimSuffix(strings.Repeat(part+",", 5000), ",")
	w.write("sbom", w.sign("build", strings.Replace(w.genuine("sbom"), part, many, 1)))
	w.settle()
	request := w.request(w.pkg())
	for b.Loop() {
		if _, found := w.evaluator.Evaluate(request); len(found) > 0 {
			b.Fatal(found)
		}
	}
}
