package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/registrytest"
)

type (
	intentOf = registry.Intent
	expiryOf = registry.Expiry
)

// TestSuite plays the whole conformance suite, each case named after the guarantee
// that it defends, in a database of its own and under the restricted roles (G20).
func TestSuite(t *testing.T) {
	registrytest.Run(t, func(t *testing.T) registrytest.Subject {
		return fresh(t, pgx.QueryExecModeCacheStatement).subject(t)
	}, registrytest.Options{ModelRuns: 5, Callers: 16})
}
