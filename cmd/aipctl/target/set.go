package target

import (
	"github.com/spf13/cobra"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
)

func setCommand(a *app.App) *cobra.Command {
	var in app.Target
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Make a target, or change the given parts of one", Args: app.ExactArgs(1, "the name of a context"),
		Long: "Secrets are given by reference: a file, or the name of an environment variable.",
	}
	r, f := &in.Registry, cmd.Flags()
	texts := map[string]*string{
		"aipd-url": &in.Aipd.URL, "token-file": &in.Aipd.TokenFile, "token-env": &in.Aipd.TokenEnv,
		"control-url-file": &r.ControlURLFile, "control-url-env": &r.ControlURLEnv,
		"readonly-url-file": &r.ReadonlyURLFile, "readonly-url-env": &r.ReadonlyURLEnv,
		"migrate-url-file": &r.MigrateURLFile, "migrate-url-env": &r.MigrateURLEnv,
		"admin-url-file": &r.AdminURLFile, "admin-url-env": &r.AdminURLEnv,
		"operator-key": &in.OperatorKey,
	}
	about := map[string]string{
		"aipd-url": "where aipd listens", "token-file": "`file` with the bearer token of aipd", "token-env": "environment `variable` with the token",
		"operator-key": "`file` with the key that signs this operator's decisions",
	}
	for name, value := range texts {
		text := about[name]
		if text == "" {
			text = "where the database URL of that role is kept"
		}
		f.StringVar(value, name, "", text)
	}
	f.BoolVar(&in.Production, "production", false, "every change asks for a name and a reason")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		changed := cmd.Flags().Changed
		return set(a, args[0], func(t *app.Target) {
			merge(t, in, changed)
		})
	}
	return cmd
}

// set changes one target of the file; the first one becomes the current one.
func set(a *app.App, name string, change func(*app.Target)) error {
	c, err := a.Config()
	if err != nil {
		return err
	}
	if c.Contexts == nil {
		c.Contexts = map[string]app.Target{}
	}
	t := c.Contexts[name]
	t.Name = name
	change(&t)
	c.Contexts[name] = t
	if c.Current == "" {
		c.Current = name
	}
	if err := a.SaveConfig(c); err != nil {
		return err
	}
	return print(a, t)
}

// merge takes over the parts that were given. A reference by file replaces one by
// environment variable, and the other way round.
func merge(t *app.Target, in app.Target, changed func(string) bool) {
	pair := func(file, env string, toFile, toEnv *string, fromFile, fromEnv string) {
		if changed(file) {
			*toFile, *toEnv = fromFile, ""
		}
		if changed(env) {
			*toEnv, *toFile = fromEnv, ""
		}
	}
	if changed("aipd-url") {
		t.Aipd.URL = in.Aipd.URL
	}
	r, from := &t.Registry, in.Registry
	pair("token-file", "token-env", &t.Aipd.TokenFile, &t.Aipd.TokenEnv, in.Aipd.TokenFile, in.Aipd.TokenEnv)
	pair("control-url-file", "control-url-env", &r.ControlURLFile, &r.ControlURLEnv, from.ControlURLFile, from.ControlURLEnv)
	pair("readonly-url-file", "readonly-url-env", &r.ReadonlyURLFile, &r.ReadonlyURLEnv, from.ReadonlyURLFile, from.ReadonlyURLEnv)
	pair("migrate-url-file", "migrate-url-env", &r.MigrateURLFile, &r.MigrateURLEnv, from.MigrateURLFile, from.MigrateURLEnv)
	pair("admin-url-file", "admin-url-env", &r.AdminURLFile, &r.AdminURLEnv, from.AdminURLFile, from.AdminURLEnv)
	if changed("operator-key") {
		t.OperatorKey = in.OperatorKey
	}
	if changed("production") {
		t.Production = in.Production
	}
}
