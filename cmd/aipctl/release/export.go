package release

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/admission"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Files of an export.
const (
	exportPackage     = "package.tar"
	exportDecision    = "decision.json"
	exportPolicy      = "trust.json"
	exportRevocations = "revocations.json"
)

func exportCommand(a *app.App) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "export DIGEST --out DIR", Short: "Write an admitted package, and what it was admitted from, to a directory",
		Long: "DIGEST is the package digest or the version id. Writes package.tar (everything but the artifact's bytes),\n" +
			"decision.json, trust.json and, when there was one, revocations.json: enough for\n" +
			"aipctl trust reverify --offline --from DIR, on any machine, for ever.",
		Args: app.ExactArgs(1, "a package digest or a version id"),
		RunE: func(cmd *cobra.Command, args []string) error { return export(cmd.Context(), a, args[0], out) },
	}
	cmd.Flags().StringVar(&out, "out", "", "`directory` to write, which must not exist (required)")
	return cmd
}

// exported is what release export tells.
type exported struct {
	Version       fleet.VersionID `json:"version_id"`
	PackageDigest fleet.Digest    `json:"package_digest"`
	Directory     string          `json:"directory"`
	Files         []string        `json:"files"`
}

func export(ctx context.Context, a *app.App, what, out string) error {
	if out == "" || exists(out) {
		return app.Usagef("usage.flag", "--out DIR is needed, and DIR must not exist yet")
	}
	reg, err := a.OpenRegistry(ctx, app.ReadOnly)
	if err != nil {
		return err
	}
	defer reg.Close()
	admitted, err := findAdmission(ctx, reg, what)
	if err != nil {
		return err
	}
	files, err := exportFiles(ctx, reg, admitted)
	if err != nil {
		return err
	}
	result := exported{Version: admitted.Version, PackageDigest: admitted.PackageDigest, Directory: out}
	for _, name := range []string{exportPackage, exportDecision, exportPolicy, exportRevocations} {
		if files[name] == nil {
			continue
		}
		if err := writeFile(filepath.Join(out, name), files[name]); err != nil {
			return err
		}
		result.Files = append(result.Files, name)
	}
	return a.Print(app.View{Kind: "Export", Item: result, Name: func(any) string { return out }, Text: func() app.Page {
		return app.Page{{Title: "Version " + admitted.Version.String(), Lines: []string{
			fmt.Sprintf("%s is in %s", admitted.PackageDigest, out), "aipctl trust reverify --offline --from " + out,
		}}}
	}})
}

// findAdmission finds the journal entry by package digest or version id.
func findAdmission(ctx context.Context, reader registry.Reader, what string) (registry.Admission, error) {
	s := registry.Selection{Noun: registry.Admissions, Limit: registry.MaxListItems}
	for {
		page, err := reader.List(ctx, s)
		if err != nil {
			return registry.Admission{}, err
		}
		for _, a := range page.Admissions {
			if a.PackageDigest.String() == what || a.Version.String() == what {
				return a, nil
			}
		}
		if page.Next == "" {
			return registry.Admission{}, fleet.Errorf(fleet.NotFound, "release.admission", "nothing was admitted as %s", fleet.Printable(what, 100)).
				Advise("aipctl get admissions -o wide")
		}
		s.After = page.Next
	}
}

func exportFiles(ctx context.Context, reader registry.Reader, a registry.Admission) (map[string][]byte, error) {
	archive, err := reader.Package(ctx, a.PackageDigest)
	if err != nil {
		return nil, err
	}
	decision, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return nil, fleet.AsError(err, "release.encode")
	}
	files := map[string][]byte{exportPackage: archive, exportDecision: append(decision, '\n')}
	trust, err := reader.List(ctx, registry.Selection{Noun: registry.TrustRevisions, IDs: []string{fmt.Sprint(a.TrustRevision)}})
	if err != nil {
		return nil, err
	}
	if len(trust.Trust) != 1 {
		return nil, fleet.Errorf(fleet.NotFound, "trust.revision", "there is no trust revision %d", a.TrustRevision)
	}
	files[exportPolicy] = trust.Trust[0].Document
	if a.RevocationList == 0 {
		return files, nil
	}
	lists, err := reader.List(ctx, registry.Selection{Noun: registry.Revocations, IDs: []string{fmt.Sprint(a.RevocationList)}})
	if err != nil {
		return nil, err
	}
	if len(lists.Revocations) != 1 {
		return nil, fleet.Errorf(fleet.NotFound, "revocation.list", "there is no revocation list %d", a.RevocationList)
	}
	files[exportRevocations], err = admission.RevocationsOf(lists.Revocations[0]).Payload()
	return files, err
}

// ReadExport reads what release export wrote.
func ReadExport(dir string) (registry.Admission, admission.Stored, error) {
	var a registry.Admission
	var s admission.Stored
	read := func(name string) ([]byte, error) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, app.Usagef("release.export", "%s cannot be read", filepath.Join(dir, name)).Caused(err)
		}
		return data, nil
	}
	decision, err := read(exportDecision)
	if err != nil {
		return a, s, err
	}
	if err := json.Unmarshal(decision, &a); err != nil {
		return a, s, app.Usagef("release.export", "%s is not a decision", filepath.Join(dir, exportDecision)).Caused(err)
	}
	if s.Archive, err = read(exportPackage); err != nil {
		return a, s, err
	}
	s.Report = a.Findings
	policy, err := read(exportPolicy)
	if err != nil {
		return a, s, err
	}
	if s.Policy, err = admission.ParsePolicy(policy); err != nil || a.RevocationList == 0 {
		return a, s, err
	}
	list, err := read(exportRevocations)
	if err != nil {
		return a, s, err
	}
	s.Revocations, err = admission.ParseRevocations(list)
	return a, s, err
}
