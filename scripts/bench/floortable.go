package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// makeFloor makes the floor's tables. The width of a route is measured on one that
// the registry itself wrote.
func (s *site) makeFloor(ctx context.Context, conn *pgx.Conn) error {
	open := routerWith(postgres.Config{Connections: 1})
	d, err := open(ctx, s)
	if err != nil {
		return err
	}
	t := newTally(never())
	d.unit(ctx, s.shape.groups[0].uniform()(rand.New(rand.NewPCG(1, 1))), t)
	d.close()
	if len(t.errors) > 0 {
		return fmt.Errorf("the first action of the seeded fleet was refused: %v", t.errors)
	}
	// A row of the floor has the id of 36 bytes and its own header; what is left of
	// a route's width is the body.
	var width int
	err = conn.QueryRow(ctx, "SELECT max(pg_column_size(r.*)) FROM (SELECT * FROM aip.route ORDER BY assigned_at DESC LIMIT 1) r").Scan(&width)
	if err != nil {
		return err
	}
	body := max(width-24-37-4, 1)
	_, err = conn.Exec(ctx, fmt.Sprintf(`
		CREATE SCHEMA bench;
		CREATE TABLE bench.floor_width AS SELECT %d AS width;
		CREATE TABLE bench.floor_row (id text COLLATE "C" PRIMARY KEY, body text NOT NULL);
		ALTER TABLE bench.floor_row ALTER COLUMN body SET STORAGE PLAIN;
		CREATE TABLE bench.floor_counter (id integer PRIMARY KEY, current bigint NOT NULL) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
		INSERT INTO bench.floor_counter SELECT g, 0 FROM generate_series(0, %d) g;
		GRANT USAGE ON SCHEMA bench TO aip_data;
		GRANT SELECT ON bench.floor_width, bench.floor_counter TO aip_data;
		GRANT INSERT ON bench.floor_row TO aip_data;
		GRANT UPDATE ON bench.floor_counter TO aip_data`, body, floorCounters-1))
	return err
}
