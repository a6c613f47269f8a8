package crash_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/aipfleet/aipfleet/scripts/crash"
)

// writes are the statements at whose commit a daemon may be cut off from the database,
// each with the text that the proxy looks for. Those of aip_data are one statement and
// its commit; those of the lifecycle service are a transaction.
func writes() []struct{ name, pattern string } {
	return []struct{ name, pattern string }{
		{"submit", "insert into aip.action "}, {"advance", "update aip.action_state s"}, {"resolve", "aip.resolve_one"},
		{"settle", "aip.settle_one"}, {"commit", "commit"},
	}
}

// TestDatabase_G39_CutOffAtEveryCommit loses the answer of a commit, or the commit
// itself, at every write that an action makes.
func TestDatabase_G39_CutOffAtEveryCommit(t *testing.T) {
	for _, cut := range []struct {
		name string
		at   crash.Cut
	}{{"COMMIT reply lost", crash.ReplyLost}, {"COMMIT never sent", crash.NeverSent}, {"COMMIT sent in half", crash.TextCutOff}} {
		for _, w := range writes() {
			t.Run(cut.name+" at "+w.name, func(t *testing.T) { cutAt(t, rig.Data, cut.name, cut.at, w.pattern) })
		}
	}
}

func cutAt(t *testing.T, proxy *crash.PGProxy, name string, at crash.Cut, pattern string) {
	for range rounds() {
		before := proxy.Cuts()
		proxy.Cut(at, pattern)
		orders, err := rig.Work(bounded(t), acme, "cut at "+pattern, 6)
		must(t, err)
		if pattern == "commit" { // notes and decisions of the reconciler are transactions
			orders = append(orders, questioned(t))
		}
		until(t, "the proxy cuts "+pattern, func(context.Context) (bool, error) { return proxy.Cuts() > before, nil })
		struck(t, name, proxy.Cuts() > before)
		settle(t, orders)
	}
}

// questioned is an action whose answer is lost, so that its attempt is put in question.
func questioned(t *testing.T) *crash.Order {
	t.Helper()
	before := rig.Network[only].Touched()
	rig.Network[only].LoseAnswers(4)
	o := order(t, crash.First, globex, "in question")
	until(t, "an answer is lost", func(context.Context) (bool, error) { return rig.Network[only].Touched() > before, nil })
	return o
}

// TestDatabase_G22_TheLifecycleServiceIsCutOff at the commit of a beat and of a
// registration.
func TestDatabase_G22_TheLifecycleServiceIsCutOff(t *testing.T) {
	for _, at := range []crash.Cut{crash.ReplyLost, crash.NeverSent} {
		for what, pattern := range map[string]string{"beat": "aip.renew", "registration": "commit"} {
			t.Run(fmt.Sprintf("%s_%d", what, at), func(t *testing.T) {
				before := rig.Leases.Cuts()
				rig.Leases.Cut(at, pattern)
				if what == "registration" {
					must(t, rig.Daemons[only].Kill())
					must(t, rig.Daemons[only].Launch())
				}
				until(t, "the proxy cuts the "+what, func(context.Context) (bool, error) { return rig.Leases.Cuts() > before, nil })
				struck(t, "lifecycle cut off from its database", true)
				orders, err := rig.Work(bounded(t), globex, "after a cut "+what, 3)
				must(t, err)
				settle(t, orders)
			})
		}
	}
}

// admin runs a statement as the superuser, past the proxies.
func admin(t *testing.T, statement string, args ...any) []string {
	t.Helper()
	url, err := os.ReadFile(rig.Fleet.Place().Secret("admin.url"))
	must(t, err)
	conn, err := pgx.Connect(bounded(t), strings.TrimSpace(string(url)))
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(bounded(t), statement, args...)
	must(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	return found
}

// TestDatabase_G39_BackendsTerminated ends every session of both planes, under work.
func TestDatabase_G39_BackendsTerminated(t *testing.T) {
	for range rounds() {
		stop := load(t, acme, globex)
		time.Sleep(300 * time.Millisecond)
		ended := admin(t, `SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE usename IN ('aip_data', 'aip_lifecycle')`)
		struck(t, "backends terminated", len(ended) > 0)
		time.Sleep(300 * time.Millisecond)
		settle(t, stop())
	}
}

// TestDatabase_G39_OneBackendKilled: the server restarts all of them.
func TestDatabase_G39_OneBackendKilled(t *testing.T) {
	stop := load(t, acme, globex)
	time.Sleep(300 * time.Millisecond)
	pids := admin(t, `SELECT pid::text FROM pg_stat_activity WHERE usename = 'aip_data' LIMIT 1`)
	if len(pids) == 0 {
		t.Fatal("no session to kill")
	}
	var pid int
	_, err := fmt.Sscan(pids[0], &pid)
	must(t, err)
	struck(t, "one backend SIGKILLed", syscall.Kill(pid, syscall.SIGKILL) == nil)
	time.Sleep(500 * time.Millisecond)
	settle(t, stop())
}

// TestDatabase_G39_ServerKilled ends the whole server as a power failure would.
func TestDatabase_G39_ServerKilled(t *testing.T) {
	for range rounds() {
		stop := load(t, acme, globex)
		time.Sleep(400 * time.Millisecond)
		struck(t, "database server SIGKILLed", rig.Fleet.Kill(bounded(t), "postgres") == nil)
		time.Sleep(300 * time.Millisecond)
		must(t, rig.Fleet.Start(bounded(t), "postgres"))
		time.Sleep(300 * time.Millisecond)
		settle(t, stop())
	}
}

// TestDatabase_G12_LockedForAWhile holds a lock that every route needs, and lets it go.
func TestDatabase_G12_LockedForAWhile(t *testing.T) {
	stop := load(t, acme, globex)
	time.Sleep(200 * time.Millisecond)
	held := admin(t, `SELECT 'locked' FROM (SELECT pg_sleep(0)) s`)
	conn := locked(t)
	time.Sleep(2 * time.Second)
	must(t, conn.Close(bounded(t)))
	struck(t, "tables locked for two seconds", len(held) == 1)
	settle(t, stop())
}

func locked(t *testing.T) *pgx.Conn {
	t.Helper()
	url, err := os.ReadFile(rig.Fleet.Place().Secret("admin.url"))
	must(t, err)
	conn, err := pgx.Connect(bounded(t), strings.TrimSpace(string(url)))
	must(t, err)
	for {
		_, err = conn.Exec(bounded(t), `BEGIN; LOCK TABLE aip.route, aip.action_state, aip.replica_live IN ACCESS EXCLUSIVE MODE`)
		var said *pgconn.PgError
		if !errors.As(err, &said) || said.Code != "40P01" { // it takes them in another order than the daemons do
			must(t, err)
			return conn
		}
		_, err = conn.Exec(bounded(t), `ROLLBACK`)
		must(t, err)
	}
}

// TestDatabase_G39_Away: the database is not reachable for longer than a lease.
func TestDatabase_G39_Away(t *testing.T) {
	stop := load(t, acme, globex)
	time.Sleep(300 * time.Millisecond)
	rig.Data.Down(true)
	rig.Leases.Down(true)
	time.Sleep(crash.LeaseTTL + time.Second)
	struck(t, "database unreachable for a lease time", true)
	settle(t, stop())
}
