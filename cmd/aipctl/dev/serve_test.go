package dev_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.yaml.in/yaml/v3"
)

// serveWith starts aipd serve as the fleet's is configured, but with another database
// URL, and returns how it ended.
func serveWith(t *testing.T, database string) (int, string) {
	t.Helper()
	text, err := os.ReadFile(live.Place().Config("serve.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	urlFile := filepath.Join(t.TempDir(), "database.url")
	config["listen"], config["database_url_file"] = "127.0.0.1:0", urlFile
	if text, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "serve.yaml")
	for file, content := range map[string][]byte{urlFile: []byte(database), path: text} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return run(t, exec.Command(filepath.Join(bin, "aipd"), "serve", "--config", path))
}

func urlOf(t *testing.T, role string) string {
	t.Helper()
	text, err := os.ReadFile(live.Place().Secret(role + ".url"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// other makes an empty database in the fleet's server and gives the URL of a role in it.
func other(t *testing.T, name string) func(role string) string {
	t.Helper()
	admin(t, "admin", "CREATE DATABASE "+name)
	t.Cleanup(func() { admin(t, "admin", "DROP DATABASE "+name+" WITH (FORCE)") })
	return func(role string) string {
		u, err := url.Parse(urlOf(t, role))
		if err != nil {
			t.Fatal(err)
		}
		u.Path = "/" + name
		return u.String()
	}
}

func admin(t *testing.T, role, statement string) { t.Helper(); execute(t, urlOf(t, role), statement) }

func execute(t *testing.T, database, statement string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatal(err)
	}
}

// The central daemon refuses a database that it must not run on, and says what to do.
func TestServe_G20_RefusesAWrongRoleOrSchema(t *testing.T) {
	empty := other(t, "unmigrated")
	newer := other(t, "newer")
	initialise(t, newer("admin"))
	// One migration that no program of today knows.
	execute(t, newer("admin"), "INSERT INTO aip.schema_file (name, version, sha256) VALUES ('99999_later.sql', 99999, repeat('0', 64))")
	for _, row := range []struct{ name, database, next string }{
		{"the owner's role", urlOf(t, "migrate"), "aip_data"},
		{"a superuser", urlOf(t, "admin"), "aip_data"},
		{"the operators' role", urlOf(t, "control"), "aip_data"},
		{"an empty database", empty("data"), "aipctl registry init"},
		{"a newer schema", newer("data"), "newer"},
	} {
		t.Run(row.name, func(t *testing.T) {
			code, text := serveWith(t, row.database)
			if code != 1 || !strings.Contains(text, "error[") || !strings.Contains(text, "next: ") || !strings.Contains(text, row.next) {
				t.Errorf("exit code %d, want 1 and %q in: %s", code, row.next, text)
			}
			if password, _ := passwordOf(t, row.database); strings.Contains(text, password) {
				t.Error("the password is in the message (G21)")
			}
		})
	}
}

func passwordOf(t *testing.T, database string) (string, bool) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	return u.User.Password()
}

// initialise makes a registry in another database, with the real command.
func initialise(t *testing.T, adminURL string) {
	t.Helper()
	dir := t.TempDir()
	urlFile, config := filepath.Join(dir, "admin.url"), filepath.Join(dir, "aipctl.yaml")
	text := fmt.Sprintf("current: elsewhere\ncontexts:\n  elsewhere:\n    registry: {admin_url_file: %s}\n", urlFile)
	for file, content := range map[string]string{urlFile: adminURL, config: text} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(bin, "aipctl"), "registry", "init")
	cmd.Env = []string{"AIPCTL_CONFIG=" + config}
	if code, out := run(t, cmd); code != 0 {
		t.Fatalf("registry init: exit code %d, %s", code, out)
	}
}
