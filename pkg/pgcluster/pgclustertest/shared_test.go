package pgclustertest_test

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/pgcluster/pgclustertest"
)

func TestMain(m *testing.M) { os.Exit(pgclustertest.Main(m)) }

func build(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `CREATE TABLE word (text text); INSERT INTO word VALUES ('template')`)
	return err
}

// Two tests never see each other's rows: each has a database of its own.
func TestNewDatabase_G18_ClonesOfOneTemplateAreSeparate(t *testing.T) {
	ctx := context.Background()
	cluster := pgclustertest.Shared(t)
	template := pgclustertest.Template(t, "words", build)
	if again := pgclustertest.Template(t, "words", build); again != template {
		t.Errorf("the template was built twice: %s and %s", template, again)
	}
	one, two := pgclustertest.NewDatabase(t, template), pgclustertest.NewDatabase(t, template)
	connection := func(db string) *pgx.Conn {
		conn, err := pgx.Connect(ctx, cluster.AdminDSN(db))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(ctx) })
		return conn
	}
	if _, err := connection(one).Exec(ctx, `INSERT INTO word VALUES ('one')`); err != nil {
		t.Fatal(err)
	}
	var words int
	if err := connection(two).QueryRow(ctx, `SELECT count(*) FROM word`).Scan(&words); err != nil {
		t.Fatal(err)
	}
	if words != 1 {
		t.Errorf("the second database has %d words, want the template's one", words)
	}
}
