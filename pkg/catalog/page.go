package catalog

import (
	"encoding/json"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// DefinitionBytes is what one definition counts towards a page's bytes: its JSON.
func DefinitionBytes(d fleet.CapabilityDefinition) int {
	raw, err := json.Marshal(d)
	if err != nil {
		return fleet.MaxDefinitionBytes + 1 // never fits; Validate refuses it before it is stored
	}
	return len(raw)
}

// Fit returns how many of the sizes, in order, make one page: at most items of them
// and at most bytes in all (G16). The first always fits, since no definition is
// larger than a page.
func Fit(sizes []int, items, bytes int) int {
	total := 0
	for i, size := range sizes {
		if total += size; i == items || i > 0 && total > bytes {
			return i
		}
	}
	return len(sizes)
}

// ContractDigest identifies what a definition promises: the canonical form without
// name and description.
func ContractDigest(d fleet.CapabilityDefinition) (fleet.Digest, error) {
	d.Name, d.Description = "", ""
	canonical, err := envelope.CanonicalOf(d)
	if err != nil {
		return fleet.Digest{}, fleet.Invalidf("catalog.definition", "definition %s has no canonical form", d.ID).Caused(err)
	}
	return fleet.ContractDigest(canonical), nil
}
