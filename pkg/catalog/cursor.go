package catalog

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Filter is what a catalog query asks for, apart from where the page starts and how
// long it is.
type Filter struct {
	Tenant  fleet.TenantID
	Search  string
	Exact   fleet.CapabilityID
	Profile string
	Unbound bool
}

// CursorKey authenticates cursors. It is made at registry init and shared by the
// deployment, so that any process continues what another began.
type CursorKey []byte

const macSize = sha256.Size

// Seal writes the cursor of the page that follows after: the revision, the last id,
// and a MAC that also covers tenant and filter (G14).
func Seal(key CursorKey, revision uint64, f Filter, after fleet.CapabilityID) string {
	raw := binary.BigEndian.AppendUint64(nil, revision)
	raw = append(raw, after.String()...)
	return base64.RawURLEncoding.EncodeToString(append(raw, sign(key, raw, f)...))
}

// Cursor is where a page starts: after an id, as of a revision. The zero Cursor is the
// start of a first page, of whatever revision.
type Cursor struct {
	After    fleet.CapabilityID
	revision uint64
}

// Fits refuses a cursor of another revision than the present as StaleCursor.
func (c Cursor) Fits(present uint64) error {
	if c.After.IsZero() || c.revision == present {
		return nil
	}
	return fleet.Errorf(fleet.StaleCursor, "catalog.stale_cursor", "the catalog moved from revision %d to %d", c.revision, present).
		Advise("start again without a cursor")
}

// Open reads a cursor; "" is the zero one. A cursor that was altered, or made for
// another tenant or filter, is Invalid. Whether it is of the present revision is for
// Fits, when the page's revision is known.
func Open(key CursorKey, f Filter, cursor string) (Cursor, error) {
	var none Cursor
	if cursor == "" {
		return none, nil
	}
	forged := fleet.Invalidf("catalog.cursor", "the cursor is not one that this query was given").
		Advise("start again without a cursor")
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) <= 8+macSize || len(raw) > 8+256+macSize {
		return none, forged
	}
	body, mac := raw[:len(raw)-macSize], raw[len(raw)-macSize:]
	if !hmac.Equal(mac, sign(key, body, f)) {
		return none, forged
	}
	after, err := fleet.ParseCapabilityID(string(body[8:]))
	if err != nil {
		return none, forged
	}
	return Cursor{After: after, revision: binary.BigEndian.Uint64(body)}, nil
}

func sign(key CursorKey, body []byte, f Filter) []byte {
	h := hmac.New(sha256.New, key)
	unbound := "0"
	if f.Unbound {
		unbound = "1"
	}
	for _, part := range []string{"catalog-cursor", string(body), f.Tenant.String(), strings.ToLower(f.Search), f.Exact.String(), f.Profile, unbound} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return h.Sum(nil)
}
