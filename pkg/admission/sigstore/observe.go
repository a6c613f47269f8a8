package sigstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/aipfleet/aipfleet/pkg/admission"
)

// checkLog proves every log entry: the log is trusted, it promised or proves
// inclusion, and the entry is about this very signature, signer and content.
func (p *proving) checkLog() error {
	entries, err := p.entity.TlogEntries()
	if err != nil {
		return refuse("bundle_malformed", "a log entry cannot be read")
	}
	if len(entries) == 0 {
		return nil
	}
	for _, entry := range entries {
		if _, trusted := p.material.RekorLogs()[hex.EncodeToString([]byte(entry.LogKeyID()))]; !trusted {
			return refuse("log_unknown", "the bundle carries an entry of a log that root %s does not trust", p.root.ID)
		}
		if p.root.InclusionProofs && !entry.HasInclusionProof() {
			return refuse("log_proof_missing", "a log only promises inclusion, root %s asks for a proof", p.root.ID)
		}
	}
	times, err := verify.VerifyTlogEntry(p.entity, p.material, len(entries), true)
	if err != nil {
		return p.whyNotLogged(entries)
	}
	p.logs = len(entries)
	for _, t := range times {
		p.observed = append(p.observed, admission.Observed{By: "log", At: t.Time.UTC()})
	}
	return nil
}

// whyNotLogged attributes a refusal of the library to what differs.
func (p *proving) whyNotLogged(entries []*tlog.Entry) error {
	for _, entry := range entries {
		switch {
		case entry.IsRekorV2():
		case !bytes.Equal(entry.Signature(), p.signed.Signature()), !p.content.CompareKey(entry.PublicKey(), p.material):
			return refuse("log_entry_of_another", "a log entry is about another signature or signer")
		case !p.sameContent(entry):
			return refuse("log_entry_of_another", "a log entry is about other content")
		case p.leaf != nil && !p.content.ValidAtTime(entry.IntegratedTime(), p.material):
			return refuse("log_time_outside_certificate", "the log saw the signature outside the certificate's life")
		}
	}
	return refuse("log_entry_invalid", "a log entry does not verify")
}

func (p *proving) sameContent(entry *tlog.Entry) bool {
	if p.bundle.Message != nil {
		digest, _, ok := entry.GetHashedRekordDigest()
		return ok && hex.EncodeToString(digest) == p.bundle.Message.Digest.Hex()
	}
	digest, ok := entry.GetDssePayloadHash()
	want := sha256.Sum256(p.bundle.Statement.Payload)
	return ok && bytes.Equal(digest, want[:])
}

// checkTimestamps proves every RFC 3161 timestamp, each by another authority.
func (p *proving) checkTimestamps() error {
	stamps, err := p.entity.Timestamps()
	if err != nil {
		return refuse("bundle_malformed", "a timestamp cannot be read")
	}
	used := map[string]bool{}
	for _, raw := range stamps {
		seen, by := p.authority(raw)
		if seen == nil {
			return refuse("timestamp_invalid", "a timestamp is not by a trusted authority over this signature")
		}
		if used[by] {
			return refuse("timestamp_repeated", "one timestamp authority is counted twice").Advise("carry one timestamp of each authority")
		}
		used[by] = true
		p.stamps++
		p.observed = append(p.observed, admission.Observed{By: "timestamp", At: seen.Time.UTC()})
	}
	return nil
}

// authority finds who made a timestamp: by its certificate, so that one authority
// under two names stays one.
func (p *proving) authority(raw []byte) (*root.Timestamp, string) {
	for _, a := range p.material.TimestampingAuthorities() {
		seen, err := a.Verify(raw, p.signed.Signature())
		if err != nil {
			continue
		}
		by := seen.URI
		if known, ok := a.(*root.SigstoreTimestampingAuthority); ok && known.Leaf != nil {
			by = string(known.Leaf.RawSubjectPublicKeyInfo)
		}
		return seen, by
	}
	return nil, ""
}
