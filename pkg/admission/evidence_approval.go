package admission

import (
	"fmt"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// PredicateApproval is the predicate of one person's word for one package under one
// policy.
const PredicateApproval = "https://github.com/aipfleet/aipfleet/attestation/approval/v1"

// Approval is what an approver says.
type Approval struct {
	// PackageDigest is Package.ApprovalDigest: the package without its approvals.
	PackageDigest fleet.Digest `json:"package_digest"`
	PolicyDigest  fleet.Digest `json:"policy_digest"`
	// TrustRevision is the number under which the policy is in force.
	TrustRevision uint64    `json:"trust_revision"`
	ApprovedAt    time.Time `json:"approved_at"`
	// RollbackFrom is the release sequence that an older release may follow after all.
	RollbackFrom uint64 `json:"rollback_from,omitempty"`
	Comment      string `json:"comment,omitempty"`
}

// ApprovalRule is the rule of the slot approval: Count of Signers.
type ApprovalRule struct {
	SlotRule
}

// evaluateApproval compares the approval with the package and the policy in force.
func (e *evaluation) evaluateApproval(d document) {
	var a Approval
	if !e.decodePredicate(d, &a) {
		return
	}
	if want := e.pkg.ApprovalDigest(); a.PackageDigest != want {
		e.at(&d, "package_mismatch", "predicate.package_digest", fmt.Sprintf("approve the package as it is, %s", want), "it approves %s", a.PackageDigest)
	}
	under := Approved{e.trust, e.policy.Digest()}
	if e.approved != nil {
		under = *e.approved
	}
	if a.PolicyDigest != under.PolicyDigest || under.TrustRevision != 0 && a.TrustRevision != under.TrustRevision {
		e.at(&d, "policy_mismatch", "predicate.policy_digest", fmt.Sprintf("approve under trust revision %d, %s", under.TrustRevision, under.PolicyDigest),
			"it approves under trust revision %d, %s", a.TrustRevision, a.PolicyDigest)
	}
	e.checkAge(d, "predicate.approved_at", a.ApprovedAt)
	if newest := e.newestSequence(); a.RollbackFrom != 0 && a.RollbackFrom == newest {
		e.rollbacks++
	}
}

// newestSequence is the highest admitted sequence of the type.
func (e *evaluation) newestSequence() uint64 {
	var newest uint64
	for _, v := range e.known.Versions {
		newest = max(newest, v.ReleaseSequence)
	}
	return newest
}

// rollbackApproved reports whether as many approvers as the policy asks for named
// this release as a rollback from the newest one.
func (e *evaluation) rollbackApproved() bool {
	rule := e.policy.doc.Slots.Approval
	return rule != nil && e.rollbacks >= rule.count()
}

// rollbackFrom is the newest sequence when this release follows it as an approved
// rollback; 0 otherwise.
func (e *evaluation) rollbackFrom() uint64 {
	if newest := e.newestSequence(); newest > e.pkg.release.Sequence && e.rollbackApproved() {
		return newest
	}
	return 0
}
