package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/schema"
)

// The login roles that a process may hold (G20).
const (
	RoleControl   = "aip_control"
	RoleData      = "aip_data"
	RoleLifecycle = "aip_lifecycle"
	RoleReadonly  = "aip_readonly"
)

// CheckSchema refuses a database on which a process must not run: logged in as
// another role than the wanted one, or as one that could do more (a superuser, the
// owner); not migrated, or newer than this binary and not declared to serve it;
// privileges that differ from the matrix (G20). Every refusal says what to do.
func CheckSchema(ctx context.Context, db Querier, role string) error {
	_, err := usableSchema(ctx, db, role)
	return err
}

// usableSchema is CheckSchema, and what it found.
func usableSchema(ctx context.Context, db Querier, role string) (SchemaReport, error) {
	if err := checkRole(ctx, db, role); err != nil {
		return SchemaReport{}, err
	}
	report, err := ReadSchema(ctx, db)
	if err != nil {
		return report, err
	}
	if err := report.Usable(); err != nil {
		return report, err
	}
	problems, err := privilegeProblems(ctx, db, report, role)
	if err != nil {
		return report, err
	}
	if len(problems) > 0 {
		return report, fleet.Errorf(fleet.Denied, "registry.privileges", "the privileges of %s are not those of the matrix", role).
			Because("%s", strings.Join(problems[:min(3, len(problems))], "; ")).Advise("aipctl registry verify")
	}
	return report, nil
}

func checkRole(ctx context.Context, db Querier, role string) error {
	var session, current string
	var powerful, owner bool
	err := db.QueryRow(ctx, `SELECT session_user::text, current_user::text,
		(SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls OR rolreplication FROM pg_catalog.pg_roles WHERE rolname = session_user),
		EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = 'aip_owner' AND pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER'))`).
		Scan(&session, &current, &powerful, &owner)
	if err != nil {
		return refused("registry.role", "the role could not be read", err)
	}
	wrong := fleet.Errorf(fleet.Denied, "registry.role", "this process runs as %s, the database URL logs in as %s", role, fleet.Printable(session, 64)).
		Advise("use the URL of %s", role)
	switch {
	case powerful:
		return wrong.Because("that role is a superuser, or may make roles or databases")
	case owner:
		return wrong.Because("that role may become the owner of the schema")
	case session != role || current != role:
		return wrong
	}
	return nil
}

// ReadMatrix reads the live privilege matrix, sorted.
func ReadMatrix(ctx context.Context, db Querier) ([]string, error) {
	query, err := schema.MatrixQuery()
	if err != nil {
		return nil, err
	}
	rows, err := db.Query(ctx, query)
	if err != nil {
		return nil, refused("registry.privileges", "the privileges could not be read", err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, refused("registry.privileges", "the privileges could not be read", err)
	}
	return lines, nil
}

// privilegeProblems compares the live privileges of a role with the matrix: with this
// binary's own, or on a newer schema with the one that was recorded when it was applied,
// which must then also hold all that this binary has.
func privilegeProblems(ctx context.Context, db Querier, report SchemaReport, role string) ([]string, error) {
	live, err := ReadMatrix(ctx, db)
	if err != nil {
		return nil, err
	}
	if !report.Newer() {
		return MatrixDifference(live, role)
	}
	own, err := schema.Matrix()
	if err != nil {
		return nil, err
	}
	rows, err := db.Query(ctx, `SELECT line FROM aip.schema_privilege ORDER BY line COLLATE "C"`)
	if err != nil {
		return nil, refused("registry.privileges", "the recorded privileges could not be read", err)
	}
	recorded, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, refused("registry.privileges", "the recorded privileges could not be read", err)
	}
	problems := missing(cells(own), cells(live), role, "lacks")
	return append(problems, difference(live, recorded, role)...), nil
}

// MatrixDifference compares a live matrix with the embedded one, for one role and
// PUBLIC, or for all when role is "".
func MatrixDifference(live []string, role string) ([]string, error) {
	wanted, err := schema.Matrix()
	if err != nil {
		return nil, err
	}
	return difference(live, wanted, role), nil
}

func difference(live, wanted []string, role string) []string {
	return append(missing(wanted, live, role, "lacks"), missing(live, wanted, role, "has more")...)
}

// missing names the lines of a role that another matrix, sorted, does not have.
func missing(lines, other []string, role, what string) (problems []string) {
	for _, line := range lines {
		who, privilege, _ := strings.Cut(line, " ")
		if role != "" && who != role && who != "PUBLIC" {
			continue
		}
		if _, found := slices.BinarySearch(other, line); !found {
			problems = append(problems, fmt.Sprintf("%s %s: %s", who, what, privilege))
		}
	}
	return problems
}

// cells takes the lines of a matrix apart, so that each says one privilege on one table,
// column or function: a line of a newer schema may name more of them.
func cells(lines []string) (all []string) {
	for _, line := range lines {
		head, list := line, ""
		words := strings.Fields(line) // role, kind, name, privilege…
		switch {
		case len(words) > 4 && words[1] == "columns":
			head, list, _ = strings.Cut(strings.TrimSuffix(line, ")"), " (")
		case len(words) > 3 && (words[1] == "table" || words[1] == "view" || words[1] == "sequence"):
			head, list = strings.Join(words[:3], " "), strings.Join(words[3:], ", ")
		}
		for _, one := range strings.Split(list, ", ") {
			all = append(all, strings.TrimSpace(head+" "+one))
		}
	}
	slices.Sort(all)
	return all
}
