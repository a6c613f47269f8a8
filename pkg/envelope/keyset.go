package envelope

import (
	"io"
	"os"
	"strconv"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Key is one trusted identity and the window in which it is trusted.
type Key struct {
	DID DID `json:"did"`
	// NotBefore is the first instant of the window; zero means always.
	NotBefore time.Time `json:"not_before,omitzero"`
	// NotAfter is the first instant after the window; zero means for ever.
	NotAfter time.Time `json:"not_after,omitzero"`
}

func (k Key) trustedAt(at time.Time) bool {
	return !at.Before(k.NotBefore) && (k.NotAfter.IsZero() || at.Before(k.NotAfter))
}

// KeySet is the keys of one role. Windows may overlap, so that a key can roll
// without a moment in which no key is trusted.
type KeySet []Key

// Trusts reports whether did is in the set with a window that holds at.
func (s KeySet) Trusts(did DID, at time.Time) bool {
	if did.IsZero() {
		return false
	}
	for _, k := range s {
		if k.DID == did && k.trustedAt(at) {
			return true
		}
	}
	return false
}

// Validate refuses a set with a missing identity or an empty window.
func (s KeySet) Validate() error {
	for i, k := range s {
		place := "keys[" + strconv.Itoa(i) + "]"
		if k.DID.IsZero() {
			return schemaError(place, "the identity is missing")
		}
		if !k.NotAfter.IsZero() && !k.NotAfter.After(k.NotBefore) {
			return schemaError(place, "the window ends before it begins")
		}
	}
	return nil
}

// CodeKeySet is the code of a key set file that cannot be used.
const CodeKeySet = "envelope.key_set"

// maxKeySetBytes holds several thousand keys.
const maxKeySetBytes = 1 << 20

// LoadKeySet reads {"keys":[{"did":…,"not_before":…,"not_after":…}]} strictly:
// unknown members and an empty set are refused.
func LoadKeySet(path string) (KeySet, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, keySetError(path, err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxKeySetBytes+1))
	if err != nil {
		return nil, keySetError(path, err)
	}
	set, err := ParseKeySet(data)
	if err != nil {
		return nil, keySetError(path, err)
	}
	return set, nil
}

// ParseKeySet is LoadKeySet on bytes.
func ParseKeySet(data []byte) (KeySet, error) {
	var doc struct {
		Keys KeySet `json:"keys"`
	}
	if err := DecodeClosed(data, Limits{MaxBytes: maxKeySetBytes}, &doc); err != nil {
		return nil, err
	}
	if len(doc.Keys) == 0 {
		return nil, schemaError("keys", "the set is empty")
	}
	if err := doc.Keys.Validate(); err != nil {
		return nil, err
	}
	return doc.Keys, nil
}

func keySetError(path string, err error) error {
	e := fleet.Invalidf(CodeKeySet, "the key set %s cannot be used", fleet.Printable(path, 200))
	return e.Because("%s", err.Error()).Caused(err)
}
