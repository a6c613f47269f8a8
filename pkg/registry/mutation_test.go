package registry_test

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/envelope/mutationtest"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func signerOf(seed byte) envelope.Signer {
	return envelope.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
}

// TestMutation_G33_EveryPartOfAPublication changes any one part of a publication that an
// operator signed as a file: it is refused, and the unchanged file is read.
func TestMutation_G33_EveryPartOfAPublication(t *testing.T) {
	operator, aipd, now := signerOf(1), signerOf(2).DID(), time.Now()
	seal := func(number uint64, name string) []byte {
		set := registry.ChangeSet{Actor: "olga", Reason: "first", Types: []fleet.ConnectorType{{Name: name, Owner: "desk", Enabled: true}}}
		data, err := registry.SealPublication(registry.SignedPublication{Number: number, ChangeSet: set}, operator, aipd, now)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	open := func(data []byte) error {
		_, err := registry.OpenPublication(data, envelope.KeySet{{DID: operator.DID()}}, aipd, now)
		return err
	}
	good := seal(7, "Desk")
	mutants := append(mutationtest.Of(t, good, 1), mutationtest.Grafts(t, good, seal(8, "Till"))...)
	for _, m := range mutants {
		if code := fleet.CodeOf(open(m.Text)); !strings.HasPrefix(code, "envelope.") {
			t.Errorf("%s: %q", m.What, code)
		}
	}
	if err := open(good); err != nil || len(mutants) < 1000 {
		t.Errorf("the unchanged publication: %v; %d changes were tried", err, len(mutants))
	}
}
