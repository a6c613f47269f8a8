package admission

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Stored is a decision as it was written down, with what it was made from.
type Stored struct {
	Archive     []byte          // the package
	Report      json.RawMessage // the journal's record
	Policy      *Policy         // of the recorded trust revision
	Revocations *RevocationList // the recorded one; nil for none
}

// Approved names the policy that approvers saw. Approvals name a trust revision, and
// a later one does not undo them: held against today's policy, an admitted package
// keeps its approvals under the one in force when it was decided.
type Approved struct {
	TrustRevision uint64
	PolicyDigest  fleet.Digest
}

// Again is the request of a stored decision: the same package, time and knowledge,
// under the policy and list given. Kind Invalid, code reverify.stored, when what was
// stored is not what a decision writes.
func (s Stored) Again() (Request, error) {
	var report Report
	if err := json.Unmarshal(s.Report, &report); err != nil || report.EvaluatedAt.IsZero() {
		return Request{}, notStored("the record is not a report").Caused(err)
	}
	p, found := ReadArchive(s.Archive, Limits{})
	if len(found) > 0 {
		return Request{}, notStored(found[0].What)
	}
	if p.Digest() != report.PackageDigest {
		return Request{}, notStored("the package is not the one that was decided about")
	}
	return Request{
		Package: p, Policy: s.Policy, TrustRevision: report.TrustRevision, Revocations: s.Revocations, At: report.EvaluatedAt,
		Known: report.Known(p.Release().Type.ID), Approved: &Approved{report.TrustRevision, report.PolicyDigest},
	}, nil
}

func notStored(what string) *fleet.Error {
	return fleet.Invalidf("reverify.stored", "a stored decision cannot be read").Because("%s", fleet.Printable(what, 300)).Advise("aipctl registry audit")
}

// Repeat makes a stored decision again, and says whether the report is the stored
// one byte for byte (G35).
func (v Evaluator) Repeat(s Stored) (report Report, same bool, err error) {
	r, err := s.Again()
	if err != nil {
		return Report{}, false, err
	}
	_, report = v.Judge(r)
	var stored bytes.Buffer
	if err := json.Compact(&stored, s.Report); err != nil {
		return Report{}, false, notStored("the record is not JSON").Caused(err)
	}
	return report, bytes.Equal(stored.Bytes(), report.JSON()), nil
}

// Under is the same question at another time: by the policy and the list in force then.
func (r Request) Under(p *Policy, trust uint64, list *RevocationList, at time.Time) Request {
	r.Policy, r.TrustRevision, r.Revocations, r.At = p, trust, list, at
	return r
}

// RevocationsOf is a list as the registry keeps it, ready to be held against packages.
func RevocationsOf(l registry.RevocationList) *RevocationList {
	return &RevocationList{Format: RevocationsFormat, Number: l.Number, IssuedAt: l.IssuedAt, Entries: l.Entries}
}
