package release

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/admission"
	transport "github.com/aipfleet/aipfleet/pkg/admission/oci"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Schemes of references; anything else is a directory.
const (
	schemeLayout   = "oci:"
	schemeRegistry = "registry://"
	defaultTag     = "latest"
)

// Access says how a registry is spoken to.
type Access struct {
	PlainHTTP    bool
	Username     string
	PasswordFile string
}

// Bind makes the flags.
func (o *Access) Bind(f *pflag.FlagSet) {
	f.BoolVar(&o.PlainHTTP, "plain-http", false, "speak HTTP to the registry, which must be on this machine")
	f.StringVar(&o.Username, "registry-username", "", "`name` for the registry")
	f.StringVar(&o.PasswordFile, "registry-password-file", "", "`file` with the password or token for the registry")
}

// target finds where a reference leads to, and what is left of it: a tag or digest.
func (o Access) target(what string) (oras.GraphTarget, string, error) {
	if rest, ok := strings.CutPrefix(what, schemeLayout); ok {
		dir, reference := cutReference(rest)
		store, err := oci.New(dir)
		if err != nil {
			return nil, "", app.Usagef("release.reference", "%s is not an OCI image layout", dir).Caused(err)
		}
		return store, reference, nil
	}
	rest, ok := strings.CutPrefix(what, schemeRegistry)
	if !ok {
		return nil, "", app.Usagef("release.reference", "%q is not a reference", fleet.Printable(what, 200)).
			Advise("oci:DIR[:TAG] or registry://HOST/REPOSITORY[:TAG|@DIGEST]")
	}
	repo, err := o.repository(rest)
	if err != nil {
		return nil, "", err
	}
	reference := repo.Reference.Reference
	if reference == "" {
		reference = defaultTag
	}
	return repo, reference, nil
}

func (o Access) repository(reference string) (*remote.Repository, error) {
	repo, err := remote.NewRepository(reference)
	if err != nil {
		return nil, app.Usagef("release.reference", "%q is not a reference into a registry", fleet.Printable(reference, 200)).Caused(err)
	}
	if repo.PlainHTTP = o.PlainHTTP; o.PlainHTTP && !onThisMachine(repo.Reference) {
		return nil, app.Usagef("usage.flag", "--plain-http is for registries on this machine, not for %s", repo.Reference.Registry)
	}
	if o.Username == "" {
		return repo, nil
	}
	secret, err := os.ReadFile(o.PasswordFile)
	if err != nil {
		return nil, app.Usagef("usage.flag", "the password file cannot be read").Caused(err)
	}
	repo.Client = &auth.Client{Client: retry.DefaultClient, Cache: auth.NewCache(), Credential: auth.StaticCredential(
		repo.Reference.Registry, auth.Credential{Username: o.Username, Password: strings.TrimSpace(string(secret))})}
	return repo, nil
}

func onThisMachine(r registry.Reference) bool {
	host, _, _ := strings.Cut(r.Host(), ":")
	return host == "127.0.0.1" || host == "localhost" || strings.HasPrefix(r.Host(), "[::1]")
}

// cutReference takes a tag or digest off a layout's path.
func cutReference(s string) (dir, reference string) {
	if dir, digest, ok := strings.Cut(s, "@"); ok {
		return dir, digest
	}
	if at := strings.LastIndex(s, ":"); at > strings.LastIndex(s, string(filepath.Separator)) {
		return s[:at], s[at+1:]
	}
	return s, defaultTag
}

// Source gives the directory of a package: what itself, or what was pulled from it.
// done removes what was pulled.
func Source(ctx context.Context, what string, access Access) (dir string, done func(), err error) {
	if !strings.HasPrefix(what, schemeLayout) && !strings.HasPrefix(what, schemeRegistry) {
		return what, func() {}, nil
	}
	from, reference, err := access.target(what)
	if err != nil {
		return "", nil, err
	}
	scratch, err := os.MkdirTemp("", "aipctl-release-")
	if err != nil {
		return "", nil, fleet.AsError(err, "release.directory")
	}
	dir = filepath.Join(scratch, "package")
	if _, err := transport.Pull(ctx, from, reference, dir, admission.Limits{}); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(scratch))
	}
	return dir, func() { _ = os.RemoveAll(scratch) }, nil
}

func pushCommand(a *app.App) *cobra.Command {
	var access Access
	cmd := &cobra.Command{
		Use: "push PKG REF", Short: "Push a package to an OCI image layout or a registry, its evidence as referrers",
		Example: "  aipctl release push dist/ticketdesk oci:dist/layout:1.0.0\n" +
			"  aipctl release push dist/ticketdesk registry://registry.example/connectors/ticketdesk:1.0.0",
		Args: app.ExactArgs(2, "a package directory and a reference"),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, reference, err := access.target(args[1])
			if err != nil {
				return err
			}
			pushed, err := transport.Push(cmd.Context(), args[0], to, reference)
			if err != nil {
				return err
			}
			return a.Print(app.View{Kind: "PushedRelease", Item: pushed, Name: func(any) string { return pushed.Digest }, Text: func() app.Page {
				return app.Page{{Fields: []app.Field{
					{Label: "Digest", Value: pushed.Digest}, {Label: "Tag", Value: pushed.Tag},
					{Label: "Files", Value: app.Plural(pushed.Files, "layer")}, {Label: "Evidence", Value: app.Plural(len(pushed.Evidence), "referrer")},
				}}}
			}})
		},
	}
	access.Bind(cmd.Flags())
	return cmd
}

func pullCommand(a *app.App) *cobra.Command {
	var access Access
	cmd := &cobra.Command{
		Use: "pull REF DIR", Short: "Pull a package from an OCI image layout or a registry into a directory",
		Long: "Checks names, sizes and digests. What the evidence is worth is for release verify and admit release, which\n" +
			"take the same references.",
		Args: app.ExactArgs(2, "a reference and a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, reference, err := access.target(args[0])
			if err != nil {
				return err
			}
			pulled, err := transport.Pull(cmd.Context(), from, reference, args[1], admission.Limits{})
			if err != nil {
				return err
			}
			return a.Print(app.View{Kind: "PulledRelease", Item: pulled, Name: func(any) string { return pulled.Digest }, Text: func() app.Page {
				return app.Page{{Fields: []app.Field{
					{Label: "Digest", Value: pulled.Digest}, {Label: "Directory", Value: args[1]},
					{Label: "Files", Value: app.Plural(pulled.Files, "layer")}, {Label: "Evidence", Value: app.Plural(pulled.Evidence, "referrer")},
				}}}
			}})
		},
	}
	access.Bind(cmd.Flags())
	return cmd
}
