package apply

import (
	"testing"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// FuzzParse_G40 shows that no file makes the parser panic, and that a refusal is one
// of ours.
func FuzzParse_G40(f *testing.F) {
	for _, seed := range []string{"", "bindings: []", "instances:\n- {id: cinst_a, tenant_id: acme}", "a: &a [*a]", "quotas: [{ref: x, tenant: 1}]", "\x00", "? [a]\n: b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := Parse(data); err != nil && !fleet.Is(err, fleet.Invalid) {
			t.Errorf("refused with kind %s: %v", fleet.KindOf(err), err)
		}
	})
}
