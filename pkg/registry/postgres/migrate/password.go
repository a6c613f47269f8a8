package migrate

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// Known is what can be said of the password of one login role.
type Known struct {
	Taken    bool   // the role exists, and somebody may be logging in with its password
	Password string // the offered one that it has; "" when it has none of them
}

// KnownPasswords compares the login roles of the cluster with passwords that are offered
// for them, and changes nothing. The administrator is the one of Init.
func KnownPasswords(ctx context.Context, adminURL string, offered map[string][]string) (map[string]Known, error) {
	conn, err := connect(ctx, adminURL, "")
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	known := map[string]Known{}
	for _, role := range LoginRoles() {
		login, err := readLogin(ctx, conn, role)
		if err != nil {
			return nil, failed("registry.init_roles", "the roles could not be read", err)
		}
		known[role] = Known{Taken: login.exists && !login.open}
		for _, password := range offered[role] {
			is, err := login.is(ctx, conn, password)
			if err != nil {
				return nil, err
			}
			if is {
				known[role] = Known{Taken: true, Password: password}
				break
			}
		}
	}
	return known, nil
}

// Sharer is a database of the cluster that is used with the roles of the registry.
type Sharer struct {
	Database string
	Sessions int // of login roles of the registry, now
}

// Sharers lists the databases whose programs a change of the passwords keeps out.
func Sharers(ctx context.Context, adminURL string) ([]Sharer, error) {
	conn, err := connect(ctx, adminURL, "")
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, `SELECT d.datname::text,
			(SELECT count(*) FROM pg_catalog.pg_stat_activity a WHERE a.datid = d.oid AND a.usename = ANY($1::name[]))
		FROM pg_catalog.pg_database d
		WHERE EXISTS (SELECT FROM pg_catalog.aclexplode(d.datacl) g JOIN pg_catalog.pg_roles r ON r.oid = g.grantee WHERE r.rolname = ANY($1::name[]))
		ORDER BY 1`, LoginRoles())
	if err != nil {
		return nil, failed("registry.init_roles", "the databases of the server could not be read", err)
	}
	sharers, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Sharer])
	return sharers, failed("registry.init_roles", "the databases of the server could not be read", err)
}

// login is one login role as the server has it.
type login struct {
	role     string
	exists   bool
	open     bool   // known to have no password: nobody logs in with one
	verifier string // of SCRAM; "" when it is of another kind, or may not be read
}

// reader is a connection or a transaction.
type reader interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// readLogin reads a role, and its verifier when the administrator is a superuser.
func readLogin(ctx context.Context, db reader, role string) (login, error) {
	l := login{role: role}
	var readable bool
	err := db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1),
		pg_catalog.has_table_privilege('pg_catalog.pg_authid', 'SELECT')`, role).Scan(&l.exists, &readable)
	if err != nil || !l.exists || !readable {
		return l, err
	}
	var stored *string
	err = db.QueryRow(ctx, "SELECT rolpassword FROM pg_catalog.pg_authid WHERE rolname = $1", role).Scan(&stored)
	if l.open = err == nil && stored == nil; stored != nil && strings.HasPrefix(*stored, scramMethod+"$") {
		l.verifier = *stored
	}
	return l, err
}

// is reports whether the role has the password: by its verifier, or by logging in.
func (l login) is(ctx context.Context, admin *pgx.Conn, password string) (bool, error) {
	switch {
	case !l.exists || l.open || password == "":
		return false, nil
	case l.verifier != "":
		return verifies(l.verifier, password), nil
	}
	config := admin.Config()
	config.User, config.Password = l.role, password
	conn, err := pgx.ConnectConfig(ctx, config)
	if err == nil {
		return true, conn.Close(ctx)
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case postgres.StatePassword:
			return false, nil
		case "42501": // let in, and not into this database yet
			return true, nil
		}
	}
	return false, failed("registry.init_roles", "the password of "+l.role+" could not be tried", err)
}

const (
	scramMethod     = "SCRAM-SHA-256"
	scramIterations = 4096
)

// newVerifier makes what PostgreSQL stores for a password (RFC 5803). Passwords are
// expected to be printable ASCII, which SASLprep leaves alone.
func newVerifier(password string) (string, error) {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // does not fail
	return scram(password, salt, scramIterations)
}

// verifies reports whether a stored verifier is the password's.
func verifies(verifier, password string) bool {
	parameters, _, _ := strings.Cut(strings.TrimPrefix(verifier, scramMethod+"$"), "$")
	rounds, salted, _ := strings.Cut(parameters, ":")
	iterations, err := strconv.Atoi(rounds)
	if err != nil || iterations < 1 {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(salted)
	if err != nil {
		return false
	}
	again, err := scram(password, salt, iterations)
	return err == nil && hmac.Equal([]byte(again), []byte(verifier))
}

func scram(password string, salt []byte, iterations int) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", err
	}
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	stored := sha256.Sum256(mac(salted, "Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("%s$%d:%s$%s:%s", scramMethod, iterations, encode(salt), encode(stored[:]), encode(mac(salted, "Server Key"))), nil
}
