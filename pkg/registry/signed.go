package registry

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// TypePublication is the type of the message that carries a signed publication.
const TypePublication = "aipfleet.catalog.v1.publication"

// SignedPublication is a change set as a file: what admission verified, signed with
// an operator's key for one aipd that keeps its registry in memory.
type SignedPublication struct {
	Number    uint64    `json:"number"` // grows with every file; a reload needs a higher one
	ChangeSet ChangeSet `json:"change_set"`
}

// BodyKey implements protocol.Document.
func (SignedPublication) BodyKey() string { return "publication" }

// MessageType implements protocol.Document.
func (SignedPublication) MessageType() string { return TypePublication }

// Validate implements protocol.Document. The change set's own rules are the registry's.
func (p SignedPublication) Validate() error {
	if p.Number == 0 {
		return fleet.Invalidf("publish.number", "the publication has no number")
	}
	return nil
}

const (
	publicationAge   = 10 * 365 * 24 * time.Hour // a file does not go stale; its number orders it
	maxPublication   = 64 << 20
	publicationDepth = 256
)

// SealPublication signs a publication for the aipd with the given identity.
func SealPublication(p SignedPublication, operator envelope.Signer, aipd envelope.DID, now time.Time) ([]byte, error) {
	message, err := protocol.NewMessage(p, fleet.NewMessageID(now), now)
	if err != nil {
		return nil, err
	}
	return envelope.Seal(message, envelope.Publication, operator, aipd)
}

// OpenPublication proves that an operator signed the file for this aipd.
func OpenPublication(data []byte, operators envelope.KeySet, aipd envelope.DID, now time.Time) (SignedPublication, error) {
	var p SignedPublication
	limits := envelope.Limits{MaxBytes: maxPublication, MaxDepth: publicationDepth}
	opened, err := envelope.Open(data, envelope.Expect{
		Purpose: envelope.Publication, Audience: aipd, Keys: operators, Now: now, MaxAge: publicationAge,
		Limits: limits, MessageTypes: []string{TypePublication},
	})
	if err != nil {
		return p, err
	}
	if opened.BodyKey() != p.BodyKey() {
		return p, fleet.Invalidf("publish.document", "the file holds another document")
	}
	if err := envelope.DecodeClosed(opened.Body(), limits, &p); err != nil {
		return p, err
	}
	return p, p.Validate()
}
