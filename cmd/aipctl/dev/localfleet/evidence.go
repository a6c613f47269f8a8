package localfleet

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/aipfleet/aipfleet/examples/ticketdesk"
)

// What the provenance of the release says; the example's trust policy wants it so.
const (
	builderID  = "https://builds.example/ticketdesk"
	sourceRepo = "https://git.example/ticketdesk"
	sourceRef  = "refs/tags/v1.0.0"
)

// signers are the keys of the example's trust policy, each with a part of its own.
func signers() []string { return []string{"publisher", "builder", "scanner", "runner", "ann", "bob"} }

func (f *Fleet) signerKey(id string) string { return f.place.Secret(id + ".pem") }

// source is a file of the release's source.
func (f *Fleet) source(name string) string { return filepath.Join(f.place.dir, "source", name) }

// vouch fills every slot of a package, with the commands that a publisher types. The
// approvals come last: they are about all the rest.
func (f *Fleet) vouch(ctx context.Context, dir string) error {
	attest := func(slot, key string, more ...string) []string {
		return append([]string{"release", "attest", dir, "--slot", slot, "--key", f.signerKey(key)}, more...)
	}
	conform, err := f.conformance(dir)
	if err != nil {
		return err
	}
	if err := f.writeScan(); err != nil {
		return err
	}
	for _, args := range [][]string{
		attest("sbom", "builder"),
		attest("provenance", "builder", "--builder-id", builderID, "--source-repository", sourceRepo, "--source-ref", sourceRef),
		attest("vulnerability", "scanner", "--predicate", f.source("scan.json")),
		conform,
		{"release", "sign", dir, "--key", f.signerKey("publisher")},
		{"release", "approve", dir, "--key", f.signerKey("ann")},
		{"release", "approve", dir, "--key", f.signerKey("bob"), "--add"},
	} {
		if _, err := f.must(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// conformance is the run of the example's scenarios, on an account that is made for it.
func (f *Fleet) conformance(dir string) ([]string, error) {
	account, cases := filepath.Join(f.place.dir, "conformance"), f.source("conformance.yaml")
	err := os.RemoveAll(account)
	if err == nil {
		err = os.MkdirAll(account, 0o700)
	}
	if err != nil {
		return nil, unavailable("dev.release", "the account for the scenarios cannot be made", err)
	}
	if err := writeFile(cases, ticketdesk.Conformance(), 0o644); err != nil {
		return nil, err
	}
	token := f.place.Secret("conformance.token")
	if _, err := writeOnce(token, func() ([]byte, error) { return []byte("token-of-the-scenarios\n"), nil }); err != nil {
		return nil, err
	}
	return []string{
		"release", "conform", dir, "--cases", cases, "--key", f.signerKey("runner"),
		"--env", "TICKETDESK_DIR=" + account, "--env", "TICKETDESK_ACCOUNT=conformance", "--secret-file", "TICKETDESK_TOKEN=" + token,
	}, nil
}

// writeScan stands for a scanner, which a private fleet does not have: it says in
// in-toto's form that scanner.example found nothing.
func (f *Fleet) writeScan() error {
	now := f.options.Now().UTC().Format(time.RFC3339)
	data, err := json.Marshal(tree{
		"scanner":  tree{"uri": "https://scanner.example/none", "version": "0", "result": []any{}},
		"metadata": tree{"scanStartedOn": now, "scanFinishedOn": now},
	})
	if err != nil {
		return unavailable("dev.release", "the scan cannot be written", err)
	}
	return writeFile(f.source("scan.json"), data, 0o644)
}
