package migrate

import (
	"context"

	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// Status says which migrations the database has and which it lacks. Any role of the
// registry may ask.
func Status(ctx context.Context, url string) (postgres.SchemaReport, error) {
	conn, err := connect(ctx, url, "")
	if err != nil {
		return postgres.SchemaReport{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return postgres.ReadSchema(ctx, conn)
}

// Verify compares the database with this binary: migrations, functions, and the
// privilege matrix of every role. It returns what differs, one sentence each; none
// means that all is as it should be. Any role of the registry may ask.
func Verify(ctx context.Context, url string) ([]string, error) {
	conn, err := connect(ctx, url, "")
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	report, err := postgres.ReadSchema(ctx, conn)
	if err != nil {
		return nil, err
	}
	problems := report.Problems()
	if report.Current == 0 {
		return problems, nil
	}
	live, err := postgres.ReadMatrix(ctx, conn)
	if err != nil {
		return nil, err
	}
	more, err := postgres.MatrixDifference(live, "")
	return append(problems, more...), err
}
