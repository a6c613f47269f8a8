package pgcluster

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// CreateDatabase makes a database; template "" is an empty one. A template must
// have no session while it is copied.
func (c *Cluster) CreateDatabase(ctx context.Context, name, template string) error {
	if template == "" {
		template = "template0"
	}
	statement := "CREATE DATABASE " + quote(name) + " TEMPLATE " + quote(template)
	if err := c.exec(ctx, statement); err != nil {
		return fail(CodeDatabase, "cannot create the database "+name, err, "")
	}
	return nil
}

// DropDatabase removes a database and ends its sessions. One that does not exist
// is no error.
func (c *Cluster) DropDatabase(ctx context.Context, name string) error {
	if err := c.exec(ctx, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)"); err != nil {
		return fail(CodeDatabase, "cannot drop the database "+name, err, "")
	}
	return nil
}

func (c *Cluster) exec(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, c.AdminDSN("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, statement)
	return err
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
