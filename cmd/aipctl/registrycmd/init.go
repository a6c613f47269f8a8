package registrycmd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres/migrate"
)

func initCommand(a *app.App) *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use: "init", Short: "Make the roles, the schema and the deployment's keys, as the administrator", Args: app.NoArgs,
		Long: "Makes what a new database needs; running it again is harmless. Passwords come from the database URLs\n" +
			"that the context names. With --urls DIR, a file with the URL of every role is written there, with a new\n" +
			"password where there was no file, for the daemons to use.",
		RunE: func(cmd *cobra.Command, _ []string) error { return initialise(cmd.Context(), a, dir) },
	}
	cmd.Flags().StringVar(&dir, "urls", "", "`directory` for the URL files of the roles, readable by their owner alone")
	return cmd
}

// roles are the login roles and their names in file names.
var roles = []string{"migrate", "control", "data", "lifecycle", "readonly"}

func initialise(ctx context.Context, a *app.App, dir string) error {
	admin, err := url(a, app.Admin)
	if err != nil {
		return err
	}
	passwords := map[string]string{}
	if dir != "" {
		if passwords, err = urlFiles(admin, dir); err != nil {
			return err
		}
	} else if err := contextPasswords(a, passwords); err != nil {
		return err
	}
	a.Progressf("making roles and schema")
	err = migrate.Init(ctx, admin, migrate.Passwords{
		Migrate: passwords["migrate"], Control: passwords["control"], Data: passwords["data"],
		Lifecycle: passwords["lifecycle"], Readonly: passwords["readonly"],
	})
	if err != nil {
		return err
	}
	return schemaStatus(ctx, a, admin)
}

// contextPasswords takes the passwords out of the URLs that the target names.
func contextPasswords(a *app.App, passwords map[string]string) error {
	t, err := a.Target()
	if err != nil {
		return err
	}
	for _, access := range []app.Access{app.Migrate, app.Control, app.ReadOnly} {
		text, err := a.DatabaseURL(t, access)
		if err != nil {
			continue // the context does not name this role; its password stays
		}
		if passwords[string(access)], err = passwordOf(text); err != nil {
			return err
		}
	}
	return nil
}

// urlFiles reads or writes the URL file of every role and returns the passwords.
func urlFiles(admin, dir string) (map[string]string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, notWritable(err)
	}
	passwords := map[string]string{}
	for _, role := range roles {
		path := filepath.Join(dir, role+".url")
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			data, err = writeURL(admin, path, role)
		}
		if err != nil {
			return nil, notWritable(err)
		}
		if passwords[role], err = passwordOf(strings.TrimSpace(string(data))); err != nil {
			return nil, err
		}
	}
	return passwords, nil
}

func notWritable(err error) error {
	return fleet.Errorf(fleet.Unavailable, "registry.url_files", "the URL files cannot be kept").Because("%v", err)
}

// writeURL writes the administrator's URL with a role's name and a new password.
func writeURL(admin, path, role string) ([]byte, error) {
	u, err := neturl.Parse(admin)
	if err != nil {
		return nil, errors.New("the administrator's URL is not a URL")
	}
	var random [24]byte
	_, _ = rand.Read(random[:]) // does not fail
	u.User = neturl.UserPassword("aip_"+role, hex.EncodeToString(random[:]))
	data := []byte(u.String() + "\n")
	return data, os.WriteFile(path, data, 0o600)
}

func passwordOf(text string) (string, error) {
	u, err := neturl.Parse(text)
	if err != nil || u.User == nil {
		return "", app.Usagef("registry.url", "a database URL is not of the form postgres://user:password@host/database")
	}
	password, _ := u.User.Password()
	return password, nil
}
