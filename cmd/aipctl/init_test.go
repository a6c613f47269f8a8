package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aipfleet/aipfleet/cmd/aipctl/apptest"
	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
)

// texts reads every file of a directory of URL files.
func texts(t *testing.T, dir string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s can be read by others (%v)", name, err)
		}
		all[filepath.Base(name)] = string(text)
	}
	return all
}

// five fails when a directory does not hold exactly the five URL files.
func five(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := texts(t, dir)
	for _, role := range []string{"migrate", "control", "data", "lifecycle", "readonly"} {
		if !strings.Contains(all[role+".url"], "://aip_"+role+":") {
			t.Errorf("%s.url is missing, or of another role", role)
		}
	}
	if len(all) != 5 {
		t.Errorf("the directory holds %d files: a rest of an init is left", len(all))
	}
	return all
}

// TestInit_G20_TheURLFilesOfTheFirstDatabaseGoOnWorking is the life of two databases of
// one server, as two operators see it.
func TestInit_G20_TheURLFilesOfTheFirstDatabaseGoOnWorking(t *testing.T) {
	cluster := pgclustertest.Own(t, "first", "second")
	first, second := apptest.New(t, overPostgres), apptest.New(t, overPostgres)
	firstURLs, secondURLs := targetAt(first, cluster, "first"), targetAt(second, cluster, "second")
	expect(t, first, 2, "context.registry", "get", "replicas")
	first.OK("registry", "init", "--urls", firstURLs)
	before := five(t, firstURLs)

	expect(t, second, 5, "registry.shared_roles", "registry", "init", "--urls", secondURLs)
	expect(t, second, 5, "registry.url_files", "registry", "init", "--urls", firstURLs)
	expect(t, second, 2, "registry.init_flags", "registry", "init", "--passwords-from", firstURLs)
	if left := texts(t, secondURLs); len(left) != 0 {
		t.Errorf("a refused init left %d files", len(left))
	}
	first.OK("get", "replicas")

	second.OK("registry", "init", "--urls", secondURLs, "--passwords-from", firstURLs)
	five(t, secondURLs)
	for name, text := range five(t, firstURLs) {
		if text != before[name] {
			t.Errorf("the first database's %s was changed", name)
		}
	}
	for _, h := range []*apptest.Harness{first, second} {
		for _, line := range []string{"get replicas", "registry migrate", "registry init", "registry init --urls " + filepath.Join(h.Dir, "urls"), "registry verify"} {
			h.OK(strings.Fields(line)...)
		}
	}

	expect(t, second, 11, "database first", "registry", "init", "--urls", secondURLs, "--rotate-passwords")
	first.OK("get", "replicas") // not confirmed, nothing was changed
	second.OK("registry", "init", "--urls", secondURLs, "--rotate-passwords", "--yes")
	five(t, secondURLs)
	second.OK("get", "replicas")
	expect(t, first, 4, "registry.password", "get", "replicas")
	expect(t, first, 5, "registry.shared_roles", "registry", "init", "--urls", firstURLs)
	first.OK("registry", "init", "--urls", firstURLs, "--passwords-from", secondURLs)
	for name, text := range five(t, firstURLs) {
		if text == before[name] || !strings.Contains(text, "/first?") {
			t.Errorf("%s is not the first database's with the new password", name)
		}
	}
	first.OK("get", "replicas")
	second.OK("get", "replicas")
}

// TestInit_G39_ABrokenOffInitIsFinishedByTheNext: a new password is on disk before the
// server has it. A kill between the two, or before the file has its name, loses nothing.
func TestInit_G39_ABrokenOffInitIsFinishedByTheNext(t *testing.T) {
	cluster := pgclustertest.Own(t, "fleet")
	h := apptest.New(t, overPostgres)
	urls := targetAt(h, cluster, "fleet")
	h.OK("registry", "init", "--urls", urls)
	old := five(t, urls)
	h.OK("registry", "init", "--urls", urls, "--rotate-passwords", "--yes")
	for name, text := range five(t, urls) { // as it is when the kill comes before the renaming
		path := filepath.Join(urls, name)
		if err := os.Rename(path, path+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(old[name]), 0o600); err != nil {
			t.Fatal(err)
		}
		if text == old[name] {
			t.Fatalf("%s was not rotated", name)
		}
	}
	expect(t, h, 4, "registry.password", "get", "replicas")
	h.OK("registry", "init", "--urls", urls)
	five(t, urls)
	h.OK("get", "replicas")

	path := filepath.Join(urls, "data.url.new") // and when it comes before the server has it
	if err := os.WriteFile(path, []byte(old["data.url"]), 0o600); err != nil {
		t.Fatal(err)
	}
	h.OK("registry", "init", "--urls", urls)
	five(t, urls)
}

// TestInit_G20_TwoAtOnceInOneDirectoryAgree starts the same init several times.
func TestInit_G20_TwoAtOnceInOneDirectoryAgree(t *testing.T) {
	cluster := pgclustertest.Own(t, "fleet")
	urls, harnesses := "", make([]*apptest.Harness, 4)
	for n := range harnesses {
		harnesses[n] = apptest.New(t, overPostgres)
		if dir := targetAt(harnesses[n], cluster, "fleet"); n == 0 {
			urls = dir
		}
	}
	results := make([]apptest.Result, len(harnesses))
	var runs sync.WaitGroup
	for n, h := range harnesses {
		runs.Go(func() { results[n] = h.Run("registry", "init", "--urls", urls) })
	}
	runs.Wait()
	for n, r := range results {
		if r.Code != 0 {
			t.Errorf("init %d: exit %d\n%s", n, r.Code, r.Stderr)
		}
	}
	five(t, urls)
	harnesses[0].OK("get", "replicas")
	harnesses[0].OK("registry", "verify")
	harnesses[0].OK("registry", "migrate")
}
