package migrate

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/schema"
)

// Passwords are set on the login roles. An empty one leaves the role's password as
// it is, so that a second database of the cluster can be initialised.
type Passwords struct {
	Migrate   string
	Control   string
	Data      string
	Lifecycle string
	Readonly  string
}

func (p Passwords) byRole() [][2]string {
	return [][2]string{
		{"aip_migrate", p.Migrate}, {"aip_control", p.Control}, {"aip_data", p.Data},
		{"aip_lifecycle", p.Lifecycle}, {"aip_readonly", p.Readonly},
	}
}

func makeRoles(ctx context.Context, conn *pgx.Conn, passwords Passwords) error {
	script, err := schema.Roles()
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, script, pgx.QueryExecModeSimpleProtocol); err != nil {
		return failed("registry.init_roles", "the roles could not be made", err)
	}
	for _, p := range passwords.byRole() {
		if p[1] == "" {
			continue
		}
		verifier, err := scram(p[1])
		if err != nil {
			return fleet.Errorf(fleet.Internal, "registry.init_roles", "the password of %s could not be hashed", p[0]).Caused(err)
		}
		// A verifier has no quote in it; the server takes it as it is, so that the
		// password itself is in no log.
		if _, err := conn.Exec(ctx, fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", p[0], verifier)); err != nil {
			return failed("registry.init_roles", "the password of "+p[0]+" could not be set", err)
		}
	}
	return nil
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
	if _, err := conn.Exec(ctx, script, pgx.QueryExecModeSimpleProtocol); err != nil {
		return failed("registry.init_database", "the database could not be prepared", err)
	}
	return nil
}

const scramIterations = 4096

// scram makes the verifier that PostgreSQL stores for a password (RFC 5803).
// Passwords are expected to be printable ASCII, which SASLprep leaves alone.
func scram(password string) (string, error) {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // does not fail
	salted, err := pbkdf2.Key(sha256.New, password, salt, scramIterations, sha256.Size)
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
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", scramIterations, encode(salt), encode(stored[:]), encode(mac(salted, "Server Key"))), nil
}
