package release

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/admission/sigstore"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// keyResult is what keygen tells.
type keyResult struct {
	ID         string `json:"id"`
	Algorithm  string `json:"algorithm"`
	PrivateKey string `json:"private_key_file"`
	PublicKey  string `json:"public_key_file"`
	Hint       string `json:"hint"` // how bundles name the key
	PublicPEM  string `json:"public_key"`
}

func keygenCommand(a *app.App) *cobra.Command {
	var algorithm string
	cmd := &cobra.Command{
		Use: "keygen FILE", Short: "Make a signing key: FILE (private, mode 0600) and FILE.pub",
		Example: "  aipctl release keygen keys/release.key",
		Args:    app.ExactArgs(1, "the private key's file"),
		RunE:    func(_ *cobra.Command, args []string) error { return keygen(a, args[0], algorithm) },
	}
	cmd.Flags().StringVar(&algorithm, "algorithm", "ed25519", "ed25519 or ecdsa-p256")
	return cmd
}

func keygen(a *app.App, path, algorithm string) error {
	pair, err := sigstore.GenerateKey(algorithm)
	if err != nil {
		return err
	}
	signer, err := sigstore.NewSigner(pair.Private)
	if err != nil {
		return err
	}
	if err := writeNew(path, pair.Private, 0o600); err != nil {
		return err
	}
	if err := writeNew(path+".pub", pair.Public, 0o644); err != nil {
		return err
	}
	base := filepath.Base(path)
	result := keyResult{
		ID: strings.TrimSuffix(base, filepath.Ext(base)), Algorithm: algorithm, PrivateKey: path, PublicKey: path + ".pub",
		Hint: signer.Hint(), PublicPEM: string(pair.Public),
	}
	return a.Print(app.View{
		Kind: "SigningKey", Item: result, Name: func(any) string { return result.Hint },
		Text: func() app.Page {
			return app.Page{{Title: "Signing key", Fields: []app.Field{
				{Label: "Algorithm", Value: algorithm}, {Label: "Private key", Value: result.PrivateKey},
				{Label: "Public key", Value: result.PublicKey}, {Label: "Hint", Value: result.Hint},
			}}}
		},
	})
}

// writeNew writes a file that must not exist yet.
func writeNew(path string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fleet.Errorf(fleet.Conflict, "release.key_exists", "%s exists already", path).Advise("name another file; keys are never replaced")
	}
	if err != nil {
		return app.Usagef("release.file", "%s cannot be written", path).Caused(err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return app.Usagef("release.file", "%s cannot be written", path).Caused(err)
	}
	return nil
}

// LoadSigner reads a private key that nobody but its owner can read.
func LoadSigner(path string) (sigstore.Signer, error) {
	if path == "" {
		return sigstore.Signer{}, app.Usagef("usage.flag", "--key FILE is needed").Advise("aipctl release keygen FILE makes one")
	}
	info, err := os.Stat(path)
	if err != nil {
		return sigstore.Signer{}, app.Usagef("release.key", "the key %s cannot be read", path).Caused(err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || info.Size() > 64<<10 {
		return sigstore.Signer{}, app.Usagef("release.key", "the key %s is not a small file that its owner alone can read", path).Advise("chmod 600 %s", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return sigstore.Signer{}, app.Usagef("release.key", "the key %s cannot be read", path).Caused(err)
	}
	return sigstore.NewSigner(data)
}
