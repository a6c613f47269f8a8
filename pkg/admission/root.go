package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Root is one Sigstore deployment that the policy trusts, with what evidence under
// it must carry.
type Root struct {
	ID string `json:"id"`
	// TrustedRoot is a Sigstore trusted_root.json: certificate authorities, logs and
	// timestamp authorities with their windows.
	TrustedRoot json.RawMessage `json:"trusted_root"`
	// LogEntries is how many different logs must hold the signature.
	LogEntries int `json:"log_entries,omitempty"`
	// InclusionProofs makes a log's promise without a proof count for nothing.
	InclusionProofs bool `json:"inclusion_proofs,omitempty"`
	// Timestamps is how many different logs or timestamp authorities must say when
	// the signature was seen. A certificate always needs one.
	Timestamps int `json:"timestamps,omitempty"`
	// SignedTimestamps is how many different timestamp authorities must (RFC 3161).
	SignedTimestamps int `json:"signed_timestamps,omitempty"`
	// CertificateLogs is how many certificate logs must have seen a certificate.
	CertificateLogs int `json:"certificate_logs,omitempty"`
}

// IdentityRule names a signer by what a certificate says.
type IdentityRule struct {
	ID      string `json:"id"`
	Root    string `json:"root"`
	Issuer  string `json:"issuer"`  // exact
	Subject string `json:"subject"` // exact, or "https://host/path*": a prefix below the host
}

// matches compares exactly, or by prefix where the rule ends in "*".
func (r IdentityRule) matches(i Identity) bool {
	if r.Issuer != i.Issuer {
		return false
	}
	if prefix, ok := strings.CutSuffix(r.Subject, "*"); ok {
		return strings.HasPrefix(i.Subject, prefix) && len(i.Subject) > len(prefix)
	}
	return r.Subject == i.Subject
}

// byIdentity finds the rule for a claimed identity: an exact one first, then the
// longest prefix.
func (p *Policy) byIdentity(i Identity) (IdentityRule, bool) {
	var found IdentityRule
	rank := -1
	for _, r := range p.doc.Identities {
		if !r.matches(i) {
			continue
		}
		length := len(r.Subject)
		if r.Subject == i.Subject {
			length = 1 << 20
		}
		if length > rank {
			found, rank = r, length
		}
	}
	return found, rank >= 0
}

func (p *Policy) root(id string) *Root {
	i := slices.IndexFunc(p.doc.Roots, func(r Root) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return &p.doc.Roots[i]
}

// Roots lists the Sigstore deployments that the policy trusts.
func (p *Policy) Roots() []Root { return slices.Clone(p.doc.Roots) }

// Identities lists the signers that certificates name.
func (p *Policy) Identities() []IdentityRule { return slices.Clone(p.doc.Identities) }

// Serial orders policies; 0 when the policy does not say.
func (p *Policy) Serial() uint64 { return p.doc.Serial }

// Follows refuses to put this policy into force after an earlier one that it is
// older than: a rolled back trust root brings revoked keys back. Kind Conflict,
// code trust.rolled_back.
func (p *Policy) Follows(earlier *Policy) error {
	if earlier == nil || earlier.Serial() == 0 || p.Serial() > earlier.Serial() {
		return nil
	}
	return fleet.Errorf(fleet.Conflict, "trust.rolled_back", "the policy's serial is %d, the one in force has %d", p.Serial(), earlier.Serial()).
		Because("an older policy would trust again what was taken out").Advise("raise serial in the policy file")
}

func (p *Policy) checkRoots() error {
	var problems []error
	seen := map[string]bool{}
	for i, r := range p.doc.Roots {
		place := fmt.Sprintf("roots[%d]", i)
		problems = append(problems,
			text(place+".id", r.ID, 128),
			wrong(seen[r.ID], place+".id", "it occurs twice"),
			wrong(len(r.TrustedRoot) == 0 || r.TrustedRoot[0] != '{', place+".trusted_root", "it must be a Sigstore trusted_root.json"),
		)
		seen[r.ID] = true
		for _, n := range []int{r.LogEntries, r.Timestamps, r.SignedTimestamps, r.CertificateLogs} {
			problems = append(problems, wrong(n < 0 || n > MaxLogEntries, place, fmt.Sprintf("a threshold is outside 0..%d", MaxLogEntries)))
		}
	}
	return errors.Join(problems...)
}

func (p *Policy) checkIdentities() error {
	var problems []error
	seen := map[string]bool{}
	for _, k := range p.keys {
		seen[k.ID] = true
	}
	claims := map[Identity]bool{}
	for i, r := range p.doc.Identities {
		place := fmt.Sprintf("identities[%d]", i)
		claim := Identity{r.Issuer, r.Subject}
		problems = append(problems,
			text(place+".id", r.ID, 128),
			wrong(seen[r.ID], place+".id", "another signer has this id"),
			wrong(claims[claim], place, "another identity is the same"),
			exactText(place+".issuer", r.Issuer),
			subjectPattern(place+".subject", r.Subject),
			wrong(p.root(r.Root) == nil, place+".root", "no root has this id"),
		)
		seen[r.ID], claims[claim] = true, true
	}
	return errors.Join(problems...)
}

// subjectPattern takes an exact name, or a URI with a "*" at the end of its path.
func subjectPattern(member, s string) error {
	prefix, isPrefix := strings.CutSuffix(s, "*")
	_, rest, isURI := strings.Cut(prefix, "://")
	_, path, hasPath := strings.Cut(rest, "/")
	return errors.Join(
		text(member, s, 2048),
		wrong(strings.ContainsAny(prefix, "*"), member, "a * is accepted at the end alone"),
		wrong(isPrefix && (!isURI || !hasPath || path == ""), member, "a prefix must be a URI and reach into its path"),
	)
}

// signerKnown reports whether a key or an identity has the id.
func (p *Policy) signerKnown(id string) bool {
	_, isKey := p.key(id)
	return isKey || slices.ContainsFunc(p.doc.Identities, func(r IdentityRule) bool { return r.ID == id })
}

// windowTooLong reports whether a window is open or longer than the policy allows.
func (p *Policy) windowTooLong(from, until time.Time) bool {
	longest := p.doc.MaxValidity.Duration
	return longest > 0 && (from.IsZero() || until.IsZero() || until.Sub(from) > longest)
}
