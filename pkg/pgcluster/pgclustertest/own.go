package pgclustertest

import (
	"context"
	"os"
	"testing"

	"github.com/aipfleet/aipfleet/pkg/pgcluster"
)

// Own starts a server for one test alone, with some empty databases: its roles are not
// those of other tests. It ends with the test.
func Own(t testing.TB, databases ...string) *pgcluster.Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "aipfleet-own-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the server may run as another account
		t.Fatal(err)
	}
	cluster, err := pgcluster.Start(t.Context(), pgcluster.Config{Dir: dir, Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pgcluster.RemoveDir(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
	for _, name := range databases {
		if err := cluster.CreateDatabase(t.Context(), name, ""); err != nil {
			t.Fatal(err)
		}
	}
	return cluster
}
