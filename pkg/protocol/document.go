package protocol

import (
	"encoding/json"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// AIPVersion is the protocol version of every document here.
const AIPVersion = envelope.Version

// HTTP paths on which messages are exchanged.
const (
	PathMessages  = "/aip/v1/messages"            // actions, cancel, status
	PathControl   = "/aip/v1/connector-control"   // register, heartbeat, drain, offline
	PathCallbacks = "/aip/v1/connector-callbacks" // stream chunks
	PathEvents    = "/aip/v1/connector-events"    // provider events
)

// ContentType is the media type of every message.
const ContentType = "application/json"

// Bounds of a message in bytes, by path.
const (
	MaxMessageBytes = 4 << 20
	MaxControlBytes = 64 << 10
)

// Principal is who acts.
type Principal = envelope.Principal

// Document is the content of a message body: its member name and its type.
type Document interface {
	// BodyKey is the single member name under which the document travels.
	BodyKey() string
	// MessageType is the type of the message that carries the document.
	MessageType() string
	// Validate checks the document; the error has code protocol.<body key>.
	Validate() error
}

// NewMessage wraps a valid document into an unsigned envelope.
func NewMessage(doc Document, id fleet.MessageID, sentAt time.Time) (envelope.Envelope, error) {
	if err := doc.Validate(); err != nil {
		return envelope.Envelope{}, err
	}
	body, err := envelope.NewBody(doc.BodyKey(), doc)
	if err != nil {
		return envelope.Envelope{}, err
	}
	return envelope.Envelope{
		AIPVersion: AIPVersion, MessageType: doc.MessageType(), MessageID: id,
		SentAt: sentAt.UTC(), Body: body,
	}, nil
}

// Read takes the document out of an opened message. It refuses a body or a
// message type of another document, members that differ only in case, and
// content that Validate refuses. Unknown members are ignored.
func Read[D Document](o envelope.Opened) (D, error) {
	var doc D
	if o.Envelope().MessageType != doc.MessageType() {
		return doc, invalid(doc.BodyKey(), "message_type", "the message is of another type")
	}
	return ReadBody[D](o.BodyKey(), o.Body())
}

// ReadBody is Read on a body's member name and value.
func ReadBody[D Document](key string, body json.RawMessage) (D, error) {
	var doc D
	if key != doc.BodyKey() {
		return doc, invalid(doc.BodyKey(), "body", "the body holds another document")
	}
	if err := envelope.DecodeStrict(body, envelope.Limits{}, &doc); err != nil {
		return doc, err
	}
	return doc, doc.Validate()
}

func invalid(document, member, why string) error {
	return fleet.Invalidf("protocol."+document, "the %s document is not valid", document).Because("%s: %s", member, why)
}

// first returns the first error of a list of checks.
func first(checks ...error) error {
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}

// refuse is an error if bad is true.
func refuse(bad bool, document, member, why string) error {
	if bad {
		return invalid(document, member, why)
	}
	return nil
}

const (
	missing   = "it is missing"
	tooLong   = "it is too long or holds control characters"
	notListed = "it is not one of the listed words"
)

// badText reports text over limit bytes or with control characters.
func badText(s string, limit int) bool {
	if len(s) > limit {
		return true
	}
	for i := range len(s) {
		if s[i] < 0x20 && s[i] != '\n' && s[i] != '\t' || s[i] == 0x7f {
			return true
		}
	}
	return false
}
