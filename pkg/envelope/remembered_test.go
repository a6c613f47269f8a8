package envelope

import (
	"crypto/ed25519"
	"encoding/binary"
	"sync"
	"testing"
)

func numbered(n int) DID {
	seed := make([]byte, ed25519.SeedSize)
	binary.BigEndian.PutUint64(seed, uint64(n))
	return NewSigner(ed25519.NewKeyFromSeed(seed)).DID()
}

// stranger is an identity as far as a map is concerned.
func stranger(n int) DID {
	var d DID
	binary.BigEndian.PutUint64(d.key[:], uint64(n))
	d.text = didPrefix + base58Encode(d.key[:])
	return d
}

// TestRemembered_G31_IsBoundedAndKeepsWhatIsUsed: a flood of strangers neither grows it
// nor displaces an identity that is asked for meanwhile.
func TestRemembered_G31_IsBoundedAndKeepsWhatIsUsed(t *testing.T) {
	var r remembered
	used := stranger(0)
	r.keep(used)
	for n := 1; n <= 5*generation; n++ {
		r.keep(stranger(n))
		if len(r.young) > generation || len(r.old) > generation {
			t.Fatalf("it holds %d and %d", len(r.young), len(r.old))
		}
		if n%(generation/2) != 0 {
			continue
		}
		if d, known := r.get(used.text); !known || d != used {
			t.Fatalf("after %d strangers: %v %v", n, d, known)
		}
	}
	if _, known := r.get(stranger(1).text); known {
		t.Error("the first stranger is still known")
	}
}

// TestParseDID_G19_WhatIsRememberedIsWhatWasParsed: by many at once, first and again; what
// is refused is refused again.
func TestParseDID_G19_WhatIsRememberedIsWhatWasParsed(t *testing.T) {
	var tasks sync.WaitGroup
	for range 4 {
		tasks.Go(func() {
			for n := range 50 {
				want := numbered(n)
				for range 2 {
					if got, err := ParseDID(want.text); err != nil || got != want {
						t.Errorf("%s opened as %v, %v", want, got, err)
					}
				}
				wrong := want.text[:len(want.text)-1]
				for range 2 {
					if d, err := ParseDID(wrong); err == nil {
						t.Errorf("%s opened as %v", wrong, d)
					}
				}
			}
		})
	}
	tasks.Wait()
	if _, known := parsed.get(numbered(1).text[:50]); known {
		t.Error("what was refused is remembered")
	}
}
