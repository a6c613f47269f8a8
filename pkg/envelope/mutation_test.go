package envelope_test

import (
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/envelope/mutationtest"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// A valid message with any one part changed does not open.
func TestOpen_G19_AnyOneChangeIsRefused(t *testing.T) {
	good := sealed(t)
	mutants := mutationtest.Of(t, good, 1)
	if len(mutants) < 1000 {
		t.Fatalf("only %d changes were tried", len(mutants))
	}
	for _, m := range mutants {
		_, err := envelope.Open(m.Text, expect())
		if err == nil {
			t.Errorf("%s: opened", m.What)
		} else if code := fleet.CodeOf(err); !strings.HasPrefix(code, "envelope.") {
			t.Errorf("%s: refused without a code: %v", m.What, err)
		}
	}
	if _, err := envelope.Open(good, expect()); err != nil {
		t.Fatalf("the unchanged message does not open: %v", err)
	}
}
