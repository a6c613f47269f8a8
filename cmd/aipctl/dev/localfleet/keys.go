package localfleet

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"

	"github.com/aipfleet/aipfleet/pkg/envelope"
)

// Names of the keys beside those of the hosts, which are named after their replicas.
const (
	keyGateway   = "gateway"
	keyLifecycle = "lifecycle"
	keyOperator  = "operator"
)

func (p Place) keyFile(name string) string { return p.Secret(name + ".pem") }

// signer loads a key, or makes it in the fleet's first life.
func (p Place) signer(name string) (envelope.Signer, error) {
	path := p.keyFile(name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return envelope.GenerateKeyFile(path)
	}
	return envelope.LoadSigner(path)
}

// keySet writes the file that says whom a process trusts in one role.
func (p Place) keySet(name string, did envelope.DID) (string, error) {
	data, err := json.MarshalIndent(map[string]any{"keys": envelope.KeySet{{DID: did}}}, "", "  ")
	if err != nil {
		return "", unavailable("dev.keys", "a key set cannot be written", err)
	}
	path := p.Config(name + ".keys.json")
	return path, writeFile(path, append(data, '\n'), 0o644)
}

func newKeyPEM() ([]byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, unavailable("dev.keys", "no key can be made", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, unavailable("dev.keys", "a key cannot be written", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
