package catalog

import (
	"encoding/json"
	"fmt"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Incompatible says why a later definition of a capability may not stand beside an
// earlier one, or "" when it may: the input is not narrowed, the output not widened,
// no side effect added, no promise about repetition withdrawn. It errs on the side of
// refusing: what it cannot compare must be equal.
func Incompatible(old, new fleet.CapabilityDefinition) string {
	if old.Kind != new.Kind {
		return fmt.Sprintf("kind changed from %q to %q", old.Kind, new.Kind)
	}
	if effectRank(new.Contract.SideEffects) > effectRank(old.Contract.SideEffects) {
		return fmt.Sprintf("side effects grew from %s to %s", old.Contract.SideEffects, new.Contract.SideEffects)
	}
	if weaker(old.Contract.Idempotency, new.Contract.Idempotency) {
		return fmt.Sprintf("idempotency weakened from %s to %s", old.Contract.Idempotency, new.Contract.Idempotency)
	}
	if why := (comparison{open: true}).accepts(schema(old.InputSchema), schema(new.InputSchema), "input"); why != "" {
		return "input narrowed: " + why
	}
	if why := (comparison{}).accepts(schema(new.OutputSchema), schema(old.OutputSchema), "output"); why != "" {
		return "output widened: " + why
	}
	return ""
}

func effectRank(s fleet.SideEffects) int {
	switch s {
	case fleet.EffectNone:
		return 0
	case fleet.EffectRead:
		return 1
	case fleet.EffectWrite:
		return 2
	}
	return 3
}

func weaker(old, new fleet.Idempotency) bool {
	return old != new && old != fleet.IdempotencyNone && old != ""
}

// schema decodes a JSON Schema; an absent one accepts everything.
func schema(raw json.RawMessage) any {
	if len(raw) == 0 {
		return true
	}
	return decode(raw)
}
