package envelope

import (
	"crypto/ed25519"
	"math/big"
	"slices"
	"strings"
)

// DID is the did:key identity of an Ed25519 key. It can only be made from a key
// that may verify: on the curve, canonically encoded and not of small order.
// DIDs compare with ==; the zero DID is no identity.
type DID struct {
	text string
	key  [ed25519.PublicKeySize]byte
}

const (
	didPrefix = "did:key:z"
	// maxDIDBytes is above every Ed25519 did:key (56 bytes).
	maxDIDBytes = 80
)

// ed25519Codec is the multicodec prefix of an Ed25519 public key.
const ed25519Codec = "\xed\x01"

// ParseDID reads did:key:z6Mk…. It refuses other methods and key types, points
// that are not on the curve or not canonically encoded, and keys of small
// order, under which anybody can make signatures. Code envelope.key.
func ParseDID(s string) (DID, error) {
	if d, known := parsed.get(s); known {
		return d, nil
	}
	d, err := parseDID(strings.Clone(s)) // s may be a part of a large message
	if err == nil {
		parsed.keep(d)
	}
	return d, err
}

// parsed is shared by the process; see remembered.
var parsed remembered //nolint:gochecknoglobals // nobody can tell what it holds

func parseDID(s string) (DID, error) {
	encoded, ok := strings.CutPrefix(s, didPrefix)
	if !ok || len(s) > maxDIDBytes {
		return DID{}, keyError("the identity is not a did:key in base58btc")
	}
	raw, ok := base58Decode(encoded)
	if !ok || base58Encode(raw) != encoded {
		return DID{}, keyError("the identity is not canonical base58btc")
	}
	key, ok := strings.CutPrefix(string(raw), ed25519Codec)
	if !ok || len(key) != ed25519.PublicKeySize {
		return DID{}, keyError("the identity is not an Ed25519 key")
	}
	d := DID{text: s}
	copy(d.key[:], key)
	if err := checkPoint(d.key); err != nil {
		return DID{}, err
	}
	return d, nil
}

// DIDFromPublic is the identity of a public key; the zero DID if the key is not
// 32 bytes or is one that ParseDID would refuse.
func DIDFromPublic(pub ed25519.PublicKey) DID {
	if len(pub) != ed25519.PublicKeySize {
		return DID{}
	}
	var d DID
	copy(d.key[:], pub)
	if checkPoint(d.key) != nil {
		return DID{}
	}
	d.text = didPrefix + base58Encode(append([]byte(ed25519Codec), pub...))
	return d
}

// PublicKey is the key of the identity, nil for the zero DID.
func (d DID) PublicKey() ed25519.PublicKey {
	if d.IsZero() {
		return nil
	}
	return slices.Clone(d.key[:])
}

// IsZero reports whether d is no identity.
func (d DID) IsZero() bool { return d.text == "" }

// String is the did:key text, "" for the zero DID.
func (d DID) String() string { return d.text }

// MarshalText writes the did:key text.
func (d DID) MarshalText() ([]byte, error) { return []byte(d.text), nil }

// UnmarshalText is ParseDID.
func (d *DID) UnmarshalText(text []byte) error {
	read, err := ParseDID(string(text))
	if err != nil {
		return err
	}
	*d = read
	return nil
}

// smallOrderY are the y coordinates (little endian) of the eight points whose
// order divides eight.
const (
	smallOrderY0 = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	smallOrderY1 = "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	smallOrderY2 = "\xec\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
	smallOrderY3 = "\xc7\x17\x6a\x70\x3d\x4d\xd8\x4f\xba\x3c\x0b\x76\x0d\x10\x67\x0f\x2a\x20\x53\xfa\x2c\x39\xcc\xc6\x4e\xc7\xfd\x77\x92\xac\x03\x7a"
	smallOrderY4 = "\x26\xe8\x95\x8f\xc2\xb2\x27\xb0\x45\xc3\xf4\x89\xf2\xef\x98\xf0\xd5\xdf\xac\x05\xd3\xc6\x33\x39\xb1\x38\x02\x88\x6d\x53\xfc\x05"
)

func checkPoint(key [ed25519.PublicKeySize]byte) error {
	key[31] &= 0x7f // the top bit is the sign of x
	switch string(key[:]) {
	case smallOrderY0, smallOrderY1, smallOrderY2, smallOrderY3, smallOrderY4:
		return keyError("the key is of small order: anybody can sign for it")
	}
	slices.Reverse(key[:])
	y := new(big.Int).SetBytes(key[:])
	p := new(big.Int).Lsh(big.NewInt(1), 255)
	p.Sub(p, big.NewInt(19))
	if y.Cmp(p) >= 0 {
		return keyError("the key is not canonically encoded")
	}
	if !onCurve(y, p) {
		return keyError("the key is not a point of the curve")
	}
	return nil
}

// onCurve reports whether -x^2 + y^2 = 1 + d x^2 y^2 has a solution x, that is
// whether (y^2-1)/(d y^2+1) is a square; d is -121665/121666.
func onCurve(y, p *big.Int) bool {
	one := big.NewInt(1)
	yy := new(big.Int).Mul(y, y)
	u := new(big.Int).Sub(yy, one)
	// Both sides of the quotient times 121666, which keeps d an integer.
	u.Mul(u, big.NewInt(121666))
	v := new(big.Int).Mul(yy, big.NewInt(-121665))
	v.Add(v, big.NewInt(121666))
	u.Mul(u, v).Mod(u, p)
	return big.Jacobi(u, p) >= 0
}
