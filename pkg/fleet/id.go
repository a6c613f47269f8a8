package fleet

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// noun describes one kind of identity: what it is called, and which text is valid.
type noun interface {
	name() string
	check(text string) error
}

// ID is an identity of one kind. The zero value is "no identity"; any other value
// was accepted by the parser of its kind. IDs are comparable and usable as map keys.
type ID[N noun] struct{ text string }

// String returns the identity as it is written on the wire, or "" for none.
func (id ID[N]) String() string { return id.text }

// IsZero reports whether there is no identity.
func (id ID[N]) IsZero() bool { return id.text == "" }

// MarshalText writes the identity; a zero identity is written as "".
func (id ID[N]) MarshalText() ([]byte, error) { return []byte(id.text), nil }

// UnmarshalText parses the identity; "" is accepted as the zero identity, because
// optional references are written that way. Required ones are checked by Validate.
func (id *ID[N]) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*id = ID[N]{}
		return nil
	}
	parsed, err := parse[N](string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

func parse[N noun](text string) (ID[N], error) {
	var kind N
	if err := kind.check(text); err != nil {
		return ID[N]{}, Invalidf("id."+kind.name(), "%s %q is not valid: %v", kind.name(), printable(text, 64), err)
	}
	return ID[N]{text: text}, nil
}

// mustParse is for identities this package mints itself.
func mustParse[N noun](text string) ID[N] {
	id, err := parse[N](text)
	if err != nil {
		panic("fleet: minted an invalid identity: " + err.Error())
	}
	return id
}

type (
	typeNoun        struct{}
	versionNoun     struct{}
	instanceNoun    struct{}
	replicaNoun     struct{}
	actionNoun      struct{}
	messageNoun     struct{}
	eventNoun       struct{}
	approvalNoun    struct{}
	transactionNoun struct{}
	journalNoun     struct{}
	capabilityNoun  struct{}
	tenantNoun      struct{}
)

// The identities of the fleet. See docs/guarantees.md and ARCHITECTURE.md for the chain they form.
type (
	TypeID        = ID[typeNoun]        // ctype_…: an adapter family
	VersionID     = ID[versionNoun]     // cver_…: an admitted artifact and manifest
	InstanceID    = ID[instanceNoun]    // cinst_…: a tenant-owned account
	ReplicaID     = ID[replicaNoun]     // crepl_…: a pre-provisioned process identity
	ActionID      = ID[actionNoun]      // act_…: one requested action
	MessageID     = ID[messageNoun]     // msg_…: one signed message
	EventID       = ID[eventNoun]       // evt_…: one event
	ApprovalID    = ID[approvalNoun]    // appr_…: one approval
	TransactionID = ID[transactionNoun] // txn_…: one transaction
	JournalID     = ID[journalNoun]     // jrnl_…: one host journal, made with its file
	CapabilityID  = ID[capabilityNoun]  // 1..256 bytes of visible ASCII
	TenantID      = ID[tenantNoun]      // 1..256 bytes without control characters
)

func (typeNoun) name() string        { return "type" }
func (versionNoun) name() string     { return "version" }
func (instanceNoun) name() string    { return "instance" }
func (replicaNoun) name() string     { return "replica" }
func (actionNoun) name() string      { return "action" }
func (messageNoun) name() string     { return "message" }
func (eventNoun) name() string       { return "event" }
func (approvalNoun) name() string    { return "approval" }
func (transactionNoun) name() string { return "transaction" }
func (journalNoun) name() string     { return "journal" }
func (capabilityNoun) name() string  { return "capability" }
func (tenantNoun) name() string      { return "tenant" }

func (typeNoun) check(s string) error        { return checkPrefixed("ctype_", s) }
func (versionNoun) check(s string) error     { return checkPrefixed("cver_", s) }
func (instanceNoun) check(s string) error    { return checkPrefixed("cinst_", s) }
func (replicaNoun) check(s string) error     { return checkPrefixed("crepl_", s) }
func (actionNoun) check(s string) error      { return checkPrefixed("act_", s) }
func (messageNoun) check(s string) error     { return checkPrefixed("msg_", s) }
func (eventNoun) check(s string) error       { return checkPrefixed("evt_", s) }
func (approvalNoun) check(s string) error    { return checkPrefixed("appr_", s) }
func (transactionNoun) check(s string) error { return checkPrefixed("txn_", s) }
func (journalNoun) check(s string) error     { return checkPrefixed("jrnl_", s) }
func (capabilityNoun) check(s string) error  { return checkVisibleASCII(s, 256) }
func (tenantNoun) check(s string) error      { return checkNoControl(s, 256) }

// ParseTypeID and its siblings are the only way to make an identity from text.
// They refuse with Kind invalid and never trim, fold or repair.
func ParseTypeID(s string) (TypeID, error) { return parse[typeNoun](s) }

// ParseVersionID parses cver_….
func ParseVersionID(s string) (VersionID, error) { return parse[versionNoun](s) }

// ParseInstanceID parses cinst_….
func ParseInstanceID(s string) (InstanceID, error) { return parse[instanceNoun](s) }

// ParseReplicaID parses crepl_….
func ParseReplicaID(s string) (ReplicaID, error) { return parse[replicaNoun](s) }

// ParseActionID parses act_….
func ParseActionID(s string) (ActionID, error) { return parse[actionNoun](s) }

// ParseMessageID parses msg_….
func ParseMessageID(s string) (MessageID, error) { return parse[messageNoun](s) }

// ParseEventID parses evt_….
func ParseEventID(s string) (EventID, error) { return parse[eventNoun](s) }

// ParseApprovalID parses appr_….
func ParseApprovalID(s string) (ApprovalID, error) { return parse[approvalNoun](s) }

// ParseTransactionID parses txn_….
func ParseTransactionID(s string) (TransactionID, error) { return parse[transactionNoun](s) }

// ParseJournalID parses jrnl_….
func ParseJournalID(s string) (JournalID, error) { return parse[journalNoun](s) }

// ParseCapabilityID parses 1..256 bytes of visible ASCII; colons are allowed.
func ParseCapabilityID(s string) (CapabilityID, error) { return parse[capabilityNoun](s) }

// ParseTenantID parses 1..256 bytes of UTF-8 without control characters.
func ParseTenantID(s string) (TenantID, error) { return parse[tenantNoun](s) }

// NewActionID mints a time-ordered action identity carrying 74 random bits (G18).
func NewActionID(now time.Time) ActionID { return mustParse[actionNoun]("act_" + uuid7(now)) }

// NewMessageID mints a time-ordered message identity.
func NewMessageID(now time.Time) MessageID { return mustParse[messageNoun]("msg_" + uuid7(now)) }

// NewEventID mints a time-ordered event identity.
func NewEventID(now time.Time) EventID { return mustParse[eventNoun]("evt_" + uuid7(now)) }

// NewJournalID mints the identity of a new host journal.
func NewJournalID(now time.Time) JournalID { return mustParse[journalNoun]("jrnl_" + uuid7(now)) }

// NewVersionID mints the identity of a connector version.
func NewVersionID(now time.Time) VersionID { return mustParse[versionNoun]("cver_" + uuid7(now)) }

// uuid7 returns a version 7 UUID (RFC 9562) as 32 hex digits: 48 bits of
// milliseconds, then 74 random bits. crypto/rand does not fail.
func uuid7(now time.Time) string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		b[i] = byte(ms >> (8 * (5 - i)))
	}
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return hex.EncodeToString(b[:])
}

func checkPrefixed(prefix, s string) error {
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return fmt.Errorf("it must start with %s", prefix)
	}
	return checkToken(rest, 96)
}

// checkToken accepts 1..limit characters of A-Z a-z 0-9 . _ -
func checkToken(s string, limit int) error {
	if len(s) < 1 || len(s) > limit {
		return fmt.Errorf("it needs 1..%d characters, has %d", limit, len(s))
	}
	for i := range len(s) {
		if !isToken(s[i]) {
			return fmt.Errorf("character %q at %d is not one of A-Z a-z 0-9 . _ -", s[i], i)
		}
	}
	return nil
}

func isToken(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

func checkVisibleASCII(s string, limit int) error {
	if len(s) < 1 || len(s) > limit {
		return fmt.Errorf("it needs 1..%d bytes, has %d", limit, len(s))
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return fmt.Errorf("byte %d is not visible ASCII", i)
		}
	}
	return nil
}
