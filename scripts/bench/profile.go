package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/registry/postgres"
)

// profile says where the time of resolve and settle goes: the plans of every
// statement inside the functions, then a load with the statements that took most.
func (b *bench) profile(ctx context.Context, out io.Writer) error {
	s := b.site(siteMain)
	conn, err := pgx.Connect(ctx, s.admin())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, g := range []string{groupBase, fanName(10_000)} {
		if err := b.plans(ctx, conn, s, g, out); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements"); err != nil {
		return fmt.Errorf("the server has no pg_stat_statements: %w", err)
	}
	clients := 8
	if len(b.scope.clients) > 0 {
		clients = b.scope.clients[0]
	}
	for _, v := range variants() {
		if v.name == variantFloor || !b.scope.has(v.name) {
			continue
		}
		if err := b.profileLoad(ctx, conn, arm{variant: v.name, open: v.open, site: s, pick: s.shape.group(groupBase).uniform()}, clients, out); err != nil {
			return err
		}
	}
	return nil
}

// plans prints what the server logs of one resolve and one settle: every nested
// statement with its plan, buffers and time, as the role of the routing daemon.
func (b *bench) plans(ctx context.Context, conn *pgx.Conn, s *site, name string, out io.Writer) error {
	settings := map[string]string{
		"session_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "0", "auto_explain.log_analyze": "on",
		"auto_explain.log_buffers": "on", "auto_explain.log_nested_statements": "on", "auto_explain.log_wal": "on",
	}
	if _, err := conn.Exec(ctx, "LOAD 'auto_explain'"); err != nil {
		return err
	}
	for key, value := range settings {
		if _, err := conn.Exec(ctx, fmt.Sprintf("ALTER ROLE aip_data SET %s = '%s'", key, value)); err != nil {
			return err
		}
	}
	d, err := routerWith(postgres.Config{Connections: 1})(ctx, s)
	if err == nil {
		pick, r := s.shape.group(name).uniform(), rand.New(rand.NewPCG(3, 3))
		for range 6 {
			d.unit(ctx, pick(r), newTally(never()))
		}
		from, _ := os.Stat(b.server.cluster.LogPath())
		d.unit(ctx, pick(r), newTally(never()))
		d.close()
		fmt.Fprintf(out, "\n# plans of one resolve and one settle, group %s\n", name)
		err = printLog(out, b.server.cluster.LogPath(), from.Size())
	}
	for key := range settings {
		if _, reset := conn.Exec(ctx, "ALTER ROLE aip_data RESET "+key); reset != nil {
			return reset
		}
	}
	return err
}

func printLog(out io.Writer, path string, from int64) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, err = out.Write(text[min(from, int64(len(text))):])
	return err
}

// profileTime is how long the profiled load runs.
const profileTime = 4 * time.Second

func (b *bench) profileLoad(ctx context.Context, conn *pgx.Conn, a arm, clients int, out io.Writer) error {
	d, err := a.open(ctx, a.site)
	if err != nil {
		return err
	}
	defer d.close()
	runSlice(ctx, d, a.pick, clients, window{0, time.Second}, b.cpu)
	if _, err := conn.Exec(ctx, "SELECT pg_stat_statements_reset(), pg_stat_reset()"); err != nil {
		return err
	}
	sample := runSlice(ctx, d, a.pick, clients, window{0, profileTime}, b.cpu)
	units := len(sample.tally.latencies[opSettle])
	fmt.Fprintf(out, "\n# %s, %d clients: %.0f ops/s, server %.0f us, client %.0f us an operation, errors %v\n", a.variant, clients, sample.perSecond,
		float64(sample.serverCPU.Microseconds())/float64(max(sample.done, 1)), float64(sample.ownCPU.Microseconds())/float64(max(sample.done, 1)), sample.tally.errors)
	if err := printStatements(ctx, conn, units, out); err != nil {
		return err
	}
	return printTables(ctx, conn, units, out)
}

func printStatements(ctx context.Context, conn *pgx.Conn, units int, out io.Writer) error {
	rows, err := conn.Query(ctx, `SELECT toplevel, calls, total_exec_time, shared_blks_hit + shared_blks_read, wal_bytes::bigint, query
		FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
		ORDER BY total_exec_time DESC LIMIT 32`)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "calls/action\tus/call\tus/action\tbuffers/call\twal bytes/call\t\tstatement")
	var top bool
	var calls, buffers, wal int64
	var ms float64
	var query string
	_, err = pgx.ForEachRow(rows, []any{&top, &calls, &ms, &buffers, &wal, &query}, func() error {
		mark := "  nested"
		if top {
			mark = "TOP"
		}
		n := float64(calls)
		fmt.Fprintf(t, "%.2f\t%.1f\t%.1f\t%.1f\t%.0f\t%s\t%s\n", n/float64(max(units, 1)), ms*1000/n, ms*1000/float64(max(units, 1)),
			float64(buffers)/n, float64(wal)/n, mark, "  "+shortened(query))
		return nil
	})
	if err != nil {
		return err
	}
	return t.Flush()
}

// shortened is the beginning of a statement on one line.
func shortened(query string) string {
	line := strings.Join(strings.Fields(query), " ")
	return line[:min(len(line), 110)]
}

func printTables(ctx context.Context, conn *pgx.Conn, units int, out io.Writer) error {
	sleepUntil(ctx, time.Now().Add(1200*time.Millisecond)) // the server reports statistics once a second
	rows, err := conn.Query(ctx, `SELECT relname, n_tup_ins, n_tup_upd, n_tup_hot_upd, n_tup_del, seq_scan, idx_scan
		FROM pg_stat_user_tables WHERE n_tup_ins + n_tup_upd + n_tup_del + seq_scan > 0 ORDER BY n_tup_upd + n_tup_ins DESC`)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "inserted\tupdated\thot\tdeleted\tseq scans\tindex scans/action\ttable")
	var name string
	var ins, upd, hot, del, seq int64
	var idx *int64
	_, err = pgx.ForEachRow(rows, []any{&name, &ins, &upd, &hot, &del, &seq, &idx}, func() error {
		scans := 0.0
		if idx != nil {
			scans = float64(*idx) / float64(max(units, 1))
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t%.2f\t  %s\n", ins, upd, hot, del, seq, scans, name)
		return nil
	})
	if err != nil {
		return err
	}
	return t.Flush()
}
