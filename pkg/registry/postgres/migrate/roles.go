package migrate

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/schema"
)

// Passwords of the login roles. One is set on a role that is new or has none; a role that
// has another makes Init refuse. An empty one leaves the role as it is.
type Passwords struct {
	Migrate   string
	Control   string
	Data      string
	Lifecycle string
	Readonly  string
	// Rotate sets them on roles that have others too. Whoever logs in with an old one, to
	// any database of the cluster, is kept out from then on.
	Rotate bool
}

func (p Passwords) byRole() [][2]string {
	return [][2]string{
		{"aip_migrate", p.Migrate}, {"aip_control", p.Control}, {"aip_data", p.Data},
		{"aip_lifecycle", p.Lifecycle}, {"aip_readonly", p.Readonly},
	}
}

// LoginRoles are the roles that have a password.
func LoginRoles() (names []string) {
	for _, role := range (Passwords{}).byRole() {
		names = append(names, role[0])
	}
	return names
}

// makeRoles makes all of the roles or changes none.
func makeRoles(ctx context.Context, conn *pgx.Conn, passwords Passwords) error {
	err := unraced(ctx, func() error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return makeRolesIn(ctx, tx, passwords) })
	})
	return failed("registry.init_roles", "the roles could not be made", err)
}

func makeRolesIn(ctx context.Context, tx pgx.Tx, passwords Passwords) error {
	created, err := createMissing(ctx, tx)
	if err != nil {
		return err
	}
	script, err := schema.Roles()
	if err != nil {
		return err
	}
	// It writes to every login role, so that until the end of the transaction nobody else
	// changes the passwords that are judged next.
	if _, err := tx.Exec(ctx, script, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	for _, p := range passwords.byRole() {
		role, password := p[0], p[1]
		if password == "" {
			continue
		}
		if !passwords.Rotate && !slices.Contains(created, role) {
			kept, err := keeps(ctx, tx, role, password)
			if err != nil {
				return err
			}
			if kept {
				continue
			}
		}
		if err := setPassword(ctx, tx, role, password); err != nil {
			return err
		}
	}
	return nil
}

// createMissing creates the roles that are not there. One that another session has just
// created is an error, a race: it has that session's password.
func createMissing(ctx context.Context, tx pgx.Tx) (created []string, err error) {
	for _, role := range append([]string{ownerRole}, LoginRoles()...) {
		var there bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1)", role).Scan(&there); err != nil {
			return nil, err
		}
		if there {
			continue
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf("CREATE ROLE %s NOLOGIN NOINHERIT", role)); err != nil {
			return nil, err
		}
		created = append(created, role)
	}
	return created, nil
}

// keeps reports whether an existing role has the password, false when it has none, and
// refuses when it has another.
func keeps(ctx context.Context, tx pgx.Tx, role, password string) (bool, error) {
	login, err := readLogin(ctx, tx, role)
	if err != nil || login.open {
		return false, err
	}
	is, err := login.is(ctx, tx.Conn(), password)
	if err == nil && !is {
		err = SharedRoles(role)
	}
	return is, err
}

// SharedRoles is the refusal of Init for roles of which the password is not known.
func SharedRoles(roles ...string) *fleet.Error {
	return fleet.Errorf(fleet.Conflict, "registry.shared_roles", "the server has %s already, with a password that is not known here; nothing was changed", strings.Join(roles, ", ")).
		Because("roles belong to the whole PostgreSQL server: the init of another database made them, and its programs log in with these passwords").
		Advise("aipctl registry init --urls DIR --passwords-from DIR-OF-THAT-DATABASE; or --rotate-passwords, which cuts its programs off")
}

func setPassword(ctx context.Context, tx pgx.Tx, role, password string) error {
	verifier, err := newVerifier(password)
	if err != nil {
		return fleet.Errorf(fleet.Internal, "registry.init_roles", "the password of %s could not be hashed", role).Caused(err)
	}
	// A verifier has no quote in it; the server takes it as it is, so that the password
	// itself is in no log.
	_, err = tx.Exec(ctx, fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", role, verifier))
	return err
}

// races bounds how often unraced tries. Of all that meet, one gets through each time.
const races = 50

// unraced repeats a transaction that lost a race about what belongs to the whole cluster.
// A lock cannot order them: an init for another database sees none of this one's.
func unraced(ctx context.Context, do func() error) error {
	for n := 1; ; n++ {
		err := do()
		if err == nil || n == races || !raced(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(mathrand.IntN(20*min(n, 10))) * time.Millisecond):
		}
	}
}

func raced(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case "23505", "42710", "40001", "40P01": // made by another at the same time; or a cycle of waits
		return true
	}
	return strings.HasPrefix(pg.Message, "tuple concurrently ") // XX000, of catalogs
}

func prepareDatabase(ctx context.Context, conn *pgx.Conn) error {
	script, err := schema.Database()
	if err != nil {
		return err
	}
	var superuser bool
	if err := conn.QueryRow(ctx, "SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user").Scan(&superuser); err != nil {
		return failed("registry.init_database", "the administrator's role could not be read", err)
	}
	if !superuser {
		script = "GRANT aip_owner TO CURRENT_USER;\n" + script
	}
	script = strings.ReplaceAll(script, "{{database}}", pgx.Identifier{conn.Config().Database}.Sanitize())
	err = unraced(ctx, func() error {
		_, err := conn.Exec(ctx, script, pgx.QueryExecModeSimpleProtocol) // all of it or nothing
		return err
	})
	return failed("registry.init_database", "the database could not be prepared", err)
}
