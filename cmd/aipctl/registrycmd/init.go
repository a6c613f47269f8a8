package registrycmd

import (
	"context"
	"fmt"
	neturl "net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

// initOptions are the flags of aipctl registry init.
type initOptions struct {
	urls   string // directory of the URL files
	from   string // directory of another database's URL files
	rotate bool
}

func initCommand(a *app.App) *cobra.Command {
	o := initOptions{}
	cmd := &cobra.Command{
		Use: "init", Short: "Make the roles, the schema and the deployment's keys, as the administrator", Args: app.NoArgs,
		Long: "Makes what a new database needs; running it again is harmless. With --urls DIR, a file with the URL of every\n" +
			"role is written there, for the daemons to use. Without it, passwords come from the database URLs that the\n" +
			"context names.\n\n" +
			"Roles and their passwords belong to the whole PostgreSQL server. A role that exists keeps its password: for a\n" +
			"second database of a server, say with --passwords-from where the URL files of the first one are. Without a\n" +
			"password that the role has, init refuses before it changes anything. --rotate-passwords sets passwords anew,\n" +
			"with --urls new ones, and keeps out every program of every database of the server that still has the old ones.",
		Example: "  aipctl registry init --urls ./second --passwords-from ./first",
		RunE:    func(cmd *cobra.Command, _ []string) error { return initialise(cmd.Context(), a, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.urls, "urls", "", "`directory` for the URL files of the roles, readable by their owner alone")
	f.StringVar(&o.from, "passwords-from", "", "`directory` with the URL files of another database of the same server, for the passwords of roles that exist")
	f.BoolVar(&o.rotate, "rotate-passwords", false, "set passwords on roles that have others: keeps out every program that uses the old ones")
	return cmd
}

func initialise(ctx context.Context, a *app.App, o initOptions) error {
	admin, err := url(a, app.Admin)
	if err != nil {
		return err
	}
	switch {
	case o.from != "" && (o.urls == "" || o.rotate):
		return app.Usagef("registry.init_flags", "--passwords-from goes with --urls, and not with --rotate-passwords")
	case o.urls == "":
		err = initFromContext(ctx, a, admin, o)
	default:
		err = initWithFiles(ctx, a, admin, o)
	}
	if err != nil {
		return err
	}
	return schemaStatus(ctx, a, admin)
}

func initFromContext(ctx context.Context, a *app.App, admin string, o initOptions) error {
	given := map[string]string{}
	if err := contextPasswords(a, given); err != nil {
		return err
	}
	if o.rotate {
		if err := confirmRotation(ctx, a, admin); err != nil {
			return err
		}
	}
	a.Progressf("making roles and schema")
	return migrate.Init(ctx, admin, passwords(given, o.rotate))
}

// initWithFiles keeps a URL file for every role. New passwords are on disk before the
// server has them, and a file takes its name only when it is true.
func initWithFiles(ctx context.Context, a *app.App, admin string, o initOptions) error {
	files, err := readURLFiles(admin, o.urls, o.from)
	if err != nil {
		return err
	}
	if o.rotate {
		if err := confirmRotation(ctx, a, admin); err != nil {
			return err
		}
		files.renew()
	} else {
		known, err := migrate.KnownPasswords(ctx, admin, files.offered())
		if err != nil {
			return err
		}
		if err := files.choose(known); err != nil {
			return err
		}
	}
	if err := files.stage(admin, o.rotate); err != nil {
		return err
	}
	a.Progressf("making roles and schema")
	if err := migrate.Init(ctx, admin, passwords(files.chosen(), o.rotate)); err != nil {
		if fleet.CodeOf(err) == "registry.shared_roles" {
			files.discard() // another init made the roles meanwhile; nothing was changed
		}
		return err
	}
	return files.publish()
}

func passwords(by map[string]string, rotate bool) migrate.Passwords {
	return migrate.Passwords{
		Migrate: by["aip_migrate"], Control: by["aip_control"], Data: by["aip_data"],
		Lifecycle: by["aip_lifecycle"], Readonly: by["aip_readonly"], Rotate: rotate,
	}
}

// confirmRotation says whom new passwords keep out.
func confirmRotation(ctx context.Context, a *app.App, admin string) error {
	sharers, err := migrate.Sharers(ctx, admin)
	if err != nil || len(sharers) == 0 {
		return err
	}
	var used []string
	for _, s := range sharers {
		used = append(used, fmt.Sprintf("database %s (%d sessions now)", fleet.Printable(s.Database, 64), s.Sessions))
	}
	return a.Confirm(app.ConfirmYes, "every program that logs in with the old passwords is kept out at its next connection, until it has the new ones: "+
		strings.Join(used, ", "), "passwords")
}

// contextPasswords takes the passwords out of the URLs that the target names.
func contextPasswords(a *app.App, given map[string]string) error {
	t, err := a.Target()
	if err != nil {
		return err
	}
	for _, access := range []app.Access{app.Migrate, app.Control, app.ReadOnly} {
		text, err := a.DatabaseURL(t, access)
		if err != nil {
			continue // the context does not name this role; its password stays
		}
		if given["aip_"+string(access)], err = passwordOf(text); err != nil {
			return err
		}
	}
	return nil
}

func passwordOf(text string) (string, error) {
	u, err := neturl.Parse(text)
	if err != nil || u.User == nil {
		return "", app.Usagef("registry.url", "a database URL is not of the form postgres://user:password@host/database")
	}
	password, _ := u.User.Password()
	return password, nil
}
