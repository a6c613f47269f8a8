package migrate

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// Bounds of archiving.
const (
	// MinArchiveAge is the youngest that an archived route may be: the longest life of
	// an action, so that nobody who may still repeat it is told that it is archived.
	MinArchiveAge       = registry.MaxTimeToLive
	DefaultArchiveBatch = 500
	MaxArchiveBatch     = 1000 // each holds one lock until its batch commits
)

// ArchivePlan says which routes are moved to the archive.
type ArchivePlan struct {
	OlderThan time.Duration // since it was assigned, settled and decided; at least MinArchiveAge
	Batch     int           // routes of one transaction; 0 means DefaultArchiveBatch
	Limit     int           // routes to archive at most in this run; 0 is no limit
	DryRun    bool          // count only
}

// ArchiveReport says what was done, or would be.
type ArchiveReport struct {
	Before   time.Time      `json:"before"`         // what happened later was left
	DryRun   bool           `json:"dry_run"`        //
	Seen     int            `json:"seen"`           // routes looked at
	Archived int            `json:"archived"`       //
	Kept     map[string]int `json:"kept,omitempty"` // by reason: reserved, uncertain, unfinished, recent, busy
	Batches  int            `json:"batches"`
	More     bool           `json:"more"` // the limit was reached
}

// Archive moves settled and decided routes to the archive, oldest first, in bounded
// batches of one transaction each, and leaves a tombstone of each (G01). It may be
// stopped and repeated at any point. The URL is of aip_migrate: no other login may
// delete a route. On an error the report says what was done until then.
func Archive(ctx context.Context, migrateURL string, plan ArchivePlan) (ArchiveReport, error) {
	report := ArchiveReport{DryRun: plan.DryRun, Kept: map[string]int{}}
	if err := plan.check(); err != nil {
		return report, err
	}
	conn, err := connect(ctx, migrateURL, ownerRole)
	if err != nil {
		return report, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	schema, err := postgres.ReadSchema(ctx, conn)
	if err == nil {
		err = schema.Usable()
	}
	if err != nil {
		return report, err
	}
	err = conn.QueryRow(ctx, "SELECT aip.clock() - $1::bigint * interval '1 microsecond'", plan.OlderThan.Microseconds()).Scan(&report.Before)
	if err != nil {
		return report, failed("registry.archive", "the time could not be read", err)
	}
	return report, plan.batches(ctx, conn, &report)
}

func (p *ArchivePlan) check() error {
	if p.Batch == 0 {
		p.Batch = DefaultArchiveBatch
	}
	switch {
	case p.OlderThan < MinArchiveAge:
		return fleet.Invalidf("registry.archive_age", "routes are archived at an age of %s at least, not %s", MinArchiveAge, p.OlderThan)
	case p.Batch < 1 || p.Batch > MaxArchiveBatch:
		return fleet.Invalidf("registry.archive_batch", "a batch has 1 to %d routes, not %d", MaxArchiveBatch, p.Batch)
	case p.Limit < 0:
		return fleet.Invalidf("registry.archive_limit", "a limit is not negative")
	}
	return nil
}

// batches goes through the routes by keyset, one transaction for each batch.
func (p ArchivePlan) batches(ctx context.Context, conn *pgx.Conn, report *ArchiveReport) error {
	after, afterID := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), ""
	for {
		size := p.Batch
		if p.Limit > 0 {
			if size = min(size, p.Limit-report.Archived); size == 0 {
				report.More = true
				return nil
			}
		}
		var seen int
		var counts []byte
		err := conn.QueryRow(ctx, "SELECT o_seen, o_counts, o_last_at, o_last_id FROM aip.archive_batch($1, $2, $3, $4, $5)",
			report.Before, after, afterID, size, p.DryRun).Scan(&seen, &counts, &after, &afterID)
		if err != nil {
			return failed("registry.archive", "a batch could not be archived and was rolled back", err)
		}
		if err := report.add(seen, counts); err != nil || seen < size {
			return err
		}
	}
}

func (r *ArchiveReport) add(seen int, counts []byte) error {
	byReason := map[string]int{}
	if err := json.Unmarshal(counts, &byReason); err != nil {
		return fleet.Errorf(fleet.Internal, "registry.archive", "the database answered something else than counts").Caused(err)
	}
	r.Seen += seen
	r.Batches++
	for reason, n := range byReason {
		if reason == "archived" {
			r.Archived += n
		} else {
			r.Kept[reason] += n
		}
	}
	return nil
}
