// Package release is aipctl release: the publisher's side of admission.
//
// It answers "how does a connector become a package that a fleet can admit?": keygen,
// pack, sign, attest, conform, approve, verify and inspect; push and pull carry it
// through OCI layouts and registries; export takes an admitted one out again. Only
// approve and export may read the fleet's registry. What attest generates says only
// what can be read from the artifact or is stated by its caller. verify judges a
// package exactly as admission will (G33), except for what only the registry knows.
//
// It does not own the rules: package admission does.
package release

import (
	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
)

// Command makes aipctl release.
func Command(a *app.App) *cobra.Command {
	return app.GroupCommand("release", "Pack, sign, attest, verify, push and export a connector release", app.GroupRelease,
		keygenCommand(a), packCommand(a), signCommand(a), attestCommand(a), approveCommand(a), verifyCommand(a), inspectCommand(a),
		pushCommand(a), pullCommand(a), exportCommand(a))
}
