package admission

import (
	"fmt"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Finding is one reason why a package is refused. A package is admitted only
// without findings: there is no level below refusal.
type Finding struct {
	Code    string `json:"code"`    // stable: "evidence.provenance.builder_not_allowed"
	Place   string `json:"place"`   // file, and the member inside it
	What    string `json:"what"`    // what was found
	Satisfy string `json:"satisfy"` // what would satisfy the rule
}

// String is the finding on one line.
func (f Finding) String() string { return f.Code + " at " + f.Place + ": " + f.What }

// findings collects; it keeps the order in which rules are checked.
type findings struct {
	list    []Finding
	without map[string]bool // codes that a broken verifier does not have; tests alone
}

func (f *findings) add(code, place, satisfy, format string, args ...any) {
	if f.without[code] {
		return
	}
	f.list = append(f.list, Finding{
		Code: code, Place: fleet.Printable(place, 300), Satisfy: satisfy,
		What: fleet.Printable(fmt.Sprintf(format, args...), 500),
	})
}

// addError turns an error of a reader into a finding under our own code.
func (f *findings) addError(code, place, satisfy string, err error) {
	f.add(code, place, satisfy, "%v", err)
}

// Refusal is the error form of findings: Kind NotAdmitted, code of the first one.
// It is nil without findings.
func Refusal(found []Finding) error {
	if len(found) == 0 {
		return nil
	}
	first := found[0]
	e := fleet.Errorf(fleet.NotAdmitted, first.Code, "the package is refused with %d finding(s)", len(found))
	return e.Because("%s: %s", first.Place, first.What).Advise("%s", first.Satisfy)
}
