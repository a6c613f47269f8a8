package envelope_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// signer is a deterministic key for tests.
func signer(seed byte) envelope.Signer {
	return envelope.NewSigner(ed25519.NewKeyFromSeed(slices.Repeat([]byte{seed}, ed25519.SeedSize)))
}

// rawDID encodes any bytes the way an Ed25519 did:key does, without a check.
func rawDID(prefix, key string) string {
	const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	n := new(big.Int).SetBytes([]byte(prefix + key))
	var out []byte
	for n.Sign() > 0 {
		var digit big.Int
		n.DivMod(n, big.NewInt(58), &digit)
		out = append(out, alphabet[digit.Int64()])
	}
	slices.Reverse(out)
	return "did:key:z" + string(out)
}

func TestDID_G19_KnownVector(t *testing.T) {
	const text = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
	const key = "2e6fcce36701dc791488e0d0b1745cc1e33a4c1c9fcc41c63bd343dbbe0970e6"
	d, err := envelope.ParseDID(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(d.PublicKey()); got != key || d.String() != text {
		t.Errorf("key %s text %s", got, d)
	}
	if again := envelope.DIDFromPublic(d.PublicKey()); again != d {
		t.Errorf("the way back gives %s", again)
	}
}

func TestDID_G19_RoundTrip(t *testing.T) {
	for seed := range byte(64) {
		d := signer(seed).DID()
		parsed, err := envelope.ParseDID(d.String())
		if err != nil || parsed != d {
			t.Fatalf("seed %d: %v %v", seed, parsed, err)
		}
		var viaJSON envelope.DID
		data, err := json.Marshal(d)
		if err == nil {
			err = json.Unmarshal(data, &viaJSON)
		}
		if err != nil || viaJSON != d {
			t.Fatalf("seed %d by JSON: %v %v", seed, viaJSON, err)
		}
	}
}

// FuzzDID_G19: an identity has one spelling, and one key that may verify.
func FuzzDID_G19(f *testing.F) {
	for seed := range byte(4) {
		f.Add(signer(seed).DID().String())
	}
	f.Add("did:key:z1" + signer(1).DID().String()[9:])
	f.Fuzz(func(t *testing.T, text string) {
		d, err := envelope.ParseDID(text)
		if err != nil {
			return
		}
		if again := envelope.DIDFromPublic(d.PublicKey()); again.String() != text || again != d {
			t.Fatalf("%q opened as the key of %s", text, again)
		}
	})
}

func BenchmarkParseDID(b *testing.B) {
	text := signer(3).DID().String()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := envelope.ParseDID(text); err != nil {
			b.Fatal(err)
		}
	}
}

// smallOrder is every encoding that stands for one of the eight points of small
// order, as RFC 8032 and as lenient readers take them.
func smallOrder() map[string]string {
	const (
		order8a = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"
		order8b = "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"
	)
	zeros, effs := strings.Repeat("00", 30), strings.Repeat("ff", 30)
	return map[string]string{
		"order 1": "01" + zeros + "00", "order 1, wrong sign": "01" + zeros + "80", "order 1, y is p+1": "ee" + effs + "7f",
		"order 2": "ec" + effs + "7f", "order 2, wrong sign": "ec" + effs + "ff",
		"order 4": "00" + zeros + "00", "order 4, negative": "00" + zeros + "80", "order 4, y is p": "ed" + effs + "7f",
		"order 8, first": order8a, "order 8, first negative": order8a[:62] + "fa",
		"order 8, second": order8b, "order 8, second negative": order8b[:62] + "85",
	}
}

func TestDID_G19_KeysOfSmallOrderAreRefused(t *testing.T) {
	for name, text := range smallOrder() {
		t.Run(name, func(t *testing.T) {
			key, err := hex.DecodeString(text)
			if err != nil || len(key) != 32 {
				t.Fatal(err, len(key))
			}
			if _, err := envelope.ParseDID(rawDID("\xed\x01", string(key))); fleet.CodeOf(err) != envelope.CodeKey {
				t.Errorf("err = %v, want code %s", err, envelope.CodeKey)
			}
			if d := envelope.DIDFromPublic(key); !d.IsZero() {
				t.Errorf("DIDFromPublic gave %s", d)
			}
		})
	}
}

// Why they are refused: under the point of order one, a constant verifies for
// every message.
func TestDID_G19_SmallOrderKeyWouldVerifyAnything(t *testing.T) {
	identity, _ := hex.DecodeString(smallOrder()["order 1"])
	forged := append(slices.Clone(identity), make([]byte, 32)...)
	if !ed25519.Verify(identity, []byte("pay everything to me"), forged) {
		t.Error("the library refuses it by itself now: the check may be redundant")
	}
}

func TestDID_G19_OtherIdentitiesAreRefused(t *testing.T) {
	good := signer(1).DID().String()
	effs := strings.Repeat("\xff", 30)
	cases := map[string]string{
		"empty": "", "no method": good[8:], "other method": strings.Replace(good, "did:key:", "did:web:", 1),
		"other base": strings.Replace(good, "key:z", "key:u", 1), "upper case scheme": "DID" + good[3:],
		"fragment": good + "#" + good[8:], "trailing space": good + " ", "leading one": "did:key:z1" + good[9:],
		"character outside base58": good[:len(good)-1] + "0", "very long": "did:key:z" + strings.Repeat("6", 4000),
		"X25519 key":     rawDID("\xec\x01", string(signer(1).DID().PublicKey())),
		"short key":      rawDID("\xed\x01", "abc"),
		"long key":       rawDID("\xed\x01", string(signer(1).DID().PublicKey())+"x"),
		"y is p+2":       rawDID("\xed\x01", "\xef"+effs+"\x7f"),
		"y is 2^255-1":   rawDID("\xed\x01", "\xff"+effs+"\x7f"),
		"not on a curve": rawDID("\xed\x01", "\x02"+strings.Repeat("\x00", 31)),
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			if d, err := envelope.ParseDID(text); fleet.CodeOf(err) != envelope.CodeKey {
				t.Errorf("%v, err = %v, want code %s", d, err, envelope.CodeKey)
			}
		})
	}
}

func TestDID_G19_ZeroIsNoIdentity(t *testing.T) {
	var zero envelope.DID
	if !zero.IsZero() || zero.PublicKey() != nil || zero.String() != "" {
		t.Error("the zero DID is somebody")
	}
	for _, key := range []ed25519.PublicKey{nil, make([]byte, 31), make([]byte, 33)} {
		if !envelope.DIDFromPublic(key).IsZero() {
			t.Errorf("a key of %d bytes gave an identity", len(key))
		}
	}
}
