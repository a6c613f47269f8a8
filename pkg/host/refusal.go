package host

import (
	"net/http"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// The codes of the checks, in their order.
const (
	CodeMalformed          = "host.malformed"
	CodeSignature          = "host.signature"
	CodeRouteMismatch      = "host.route_mismatch"
	CodeReplay             = "host.replay"
	CodeFenceLost          = "host.fence_lost"
	CodeActionConflict     = "host.action_conflict"
	CodeJournalGap         = "host.journal_gap"
	CodeNotReady           = "host.not_ready"
	CodeDraining           = "host.draining"
	CodeCapacity           = "host.capacity"
	CodeCredentialRevision = "host.credential_revision"
	CodeApproval           = "host.approval"
	CodeContract           = "host.contract"
)

// rule is one row of the table of checks.
type rule struct {
	check  int
	kind   fleet.Kind
	status int
	class  protocol.RefusalClass
	what   string
}

func ruleOf(code string) rule {
	const refused, unknown, notStarted = protocol.ClassRefused, protocol.ClassUnknown, protocol.ClassNotStarted
	switch code {
	case CodeMalformed:
		return rule{1, fleet.Invalid, http.StatusBadRequest, refused, "the message is malformed"}
	case CodeSignature:
		return rule{2, fleet.Denied, http.StatusUnauthorized, refused, "the message is not accepted"}
	case CodeRouteMismatch:
		return rule{3, fleet.Denied, http.StatusForbidden, refused, "the message is for another target"}
	case CodeReplay:
		return rule{4, fleet.Conflict, http.StatusConflict, refused, "the message id was used for another message"}
	case CodeFenceLost:
		return rule{5, fleet.FenceLost, http.StatusConflict, refused, "the attempt is superseded"}
	case CodeActionConflict:
		return rule{6, fleet.Conflict, http.StatusConflict, unknown, "the action means something else here"}
	case CodeJournalGap:
		return rule{6, fleet.Unknown, http.StatusConflict, unknown, "an earlier attempt may have been executed"}
	case CodeDraining:
		return rule{8, fleet.Unavailable, http.StatusServiceUnavailable, notStarted, "the host takes no new actions"}
	case CodeCapacity:
		return rule{9, fleet.CapacityExceeded, http.StatusTooManyRequests, notStarted, "the host is full"}
	case CodeCredentialRevision:
		return rule{10, fleet.Denied, http.StatusForbidden, notStarted, "the credential revision is not accepted"}
	case CodeApproval:
		return rule{11, fleet.Denied, http.StatusForbidden, notStarted, "the action is not approved"}
	case CodeContract:
		return rule{12, fleet.Invalid, http.StatusUnprocessableEntity, notStarted, "the action is not within the capability's contract"}
	}
	return rule{7, fleet.Unavailable, http.StatusServiceUnavailable, notStarted, "the host is not ready"}
}

// refusal is one check's no.
type refusal struct {
	code  string
	why   string
	class protocol.RefusalClass // "" is the rule's own
	after time.Duration         // retry hint
}

func refuse(code, why string) *refusal { return &refusal{code: code, why: why} }

func (r *refusal) classed() protocol.RefusalClass {
	if r.class != "" {
		return r.class
	}
	return ruleOf(r.code).class
}

// document is the refusal as the protocol says it.
func (r *refusal) document(about protocol.HostRefusal) protocol.Error {
	rule := ruleOf(r.code)
	about.Check, about.Code, about.Class = rule.check, r.code, r.classed()
	err := fleet.Errorf(rule.kind, r.code, "%s", rule.what).Because("%s", r.why)
	err.RetryAfter = r.after
	return about.Refuse(err)
}
