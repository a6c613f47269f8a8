package pgcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

func TestFind_G40_AMissingServerNamesTheNextStep(t *testing.T) {
	_, err := findIn([]string{t.TempDir()})
	if !hasCode(err, CodeNotInstalled) || fleet.AsError(err, "").Next != "make setup" {
		t.Errorf("error = %v, want one that names make setup", err)
	}
}

func TestFind_G40_TheHighestSufficientVersionWinsAndAnOldOneIsNamed(t *testing.T) {
	old, mid, high := fakeServer(t, "12.3"), fakeServer(t, "14.9"), fakeServer(t, "17.1 (Debian 17.1-1)")
	got, err := findIn([]string{old, mid, high})
	if err != nil || got.Dir != high || got.Version != 17 {
		t.Errorf("found %+v, %v; want version 17 in %s", got, err, high)
	}
	_, err = findIn([]string{old})
	if !hasCode(err, CodeNotInstalled) || !strings.Contains(err.Error(), "version 12") {
		t.Errorf("error = %v, want one that names version 12", err)
	}
}

func fakeServer(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n"
	for _, name := range []string{"initdb", "postgres"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A root caller whose directory the server's account cannot reach gets the data
// elsewhere, with a pointer, and finds it again.
func TestPlace_G39_AnUnreachableDirectoryKeepsAPointerToTheData(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	stranger := account{switched: true, uid: 4_000_000, gid: 4_000_000}
	dir := filepath.Join(closed, "pg")
	p, err := preparePlace(dir, stranger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(p.home) })
	if strings.HasPrefix(p.home, closed) || !stranger.reaches(p.home) {
		t.Fatalf("the data is in %s, which the account cannot reach", p.home)
	}
	found, err := existingPlace(dir)
	if err != nil || found != p {
		t.Errorf("found %+v, %v; want %+v", found, err, p)
	}
}

func TestPlace_G39_AReachableDirectoryHoldsItsOwnData(t *testing.T) {
	dir := t.TempDir()
	p, err := preparePlace(dir, account{})
	if err != nil || p.home != p.dir || p.dir != dir {
		t.Errorf("place = %+v, %v; want the data inside %s", p, err, dir)
	}
}

func TestRemoveDir_G40_ADirectoryWithOtherThingsIsNotRemoved(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := RemoveDir(bounded(t), dir); !hasCode(err, CodeDirectory) {
		t.Errorf("remove = %v, want %s", err, CodeDirectory)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("a file of somebody else is gone: %v", err)
	}
}

// make setup and the tests must agree about which server there is.
func TestFind_G40_TheSetupScriptFindsTheSameServer(t *testing.T) {
	found, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	out, err := run("../../scripts/setup.sh", "--where")
	if err != nil || out != found.Dir {
		t.Errorf("the script finds %q (%v), Find %q", out, err, found.Dir)
	}
}
