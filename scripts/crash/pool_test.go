package crash_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/aipfleet/aipfleet/pkg/client"
	"github.com/aipfleet/aipfleet/scripts/crash"
)

// TestDatabase_G39_TheCallerLeavesDuringCommit cuts the context of a client's request
// while the write that it waits for commits: before the server has the commit, which it
// carries out with nobody waiting, and after, when the answer has nobody to go to.
func TestDatabase_G39_TheCallerLeavesDuringCommit(t *testing.T) {
	for _, held := range []struct {
		name string
		at   crash.Cut
	}{{"before the server has it", crash.HeldBefore}, {"before its answer", crash.HeldAfter}} {
		for _, w := range writes()[:3] { // a settlement comes after the answer: nobody waits for it
			t.Run(w.name+" "+held.name, func(t *testing.T) {
				for range rounds() {
					leaveDuring(t, held.at, w.pattern)
				}
			})
		}
	}
}

func leaveDuring(t *testing.T, at crash.Cut, pattern string) {
	t.Helper()
	o, err := crash.NewOrder(acme, "the caller leaves at "+pattern)
	must(t, err)
	c, err := rig.Client(crash.First, acme)
	must(t, err)
	before := rig.Data.Cuts()
	rig.Data.Cut(at, pattern)
	caller, leave := context.WithCancel(bounded(t))
	defer leave()
	answered := make(chan error, 1)
	go func() {
		_, err := c.Submit(caller, o.Request, 30*time.Second)
		answered <- err
	}()
	until(t, "the commit is under way", func(context.Context) (bool, error) { return rig.Data.Cuts() > before, nil })
	select {
	case err := <-answered:
		t.Fatalf("the caller was answered before the commit: %v", err)
	default:
	}
	leave()
	struck(t, "caller's context cut during COMMIT", <-answered != nil)
	time.Sleep(200 * time.Millisecond) // the daemon notices that nobody waits
	rig.Data.Release()
	settle(t, []*crash.Order{o})
}

// poolSize is how many connections one aipd has at most.
const poolSize = 32

// TestDatabase_G31_ThePoolIsExhausted: every connection of an aipd waits for an answer, longer
// than anybody waits for a connection. Submissions share their reads and writes, so it is lists of
// actions, each of which reads for itself, that hold the connections; the submissions that come then get
// none, and whatever became of them is settled once.
func TestDatabase_G31_ThePoolIsExhausted(t *testing.T) {
	orders := make([]*crash.Order, poolSize)
	for i := range orders {
		var err error
		orders[i], err = crash.NewOrder([]string{acme, globex}[i%2], fmt.Sprintf("exhausted %d", i))
		must(t, err)
	}
	reader, err := rig.Client(crash.First, acme)
	must(t, err)
	rig.Data.Stall(true)
	t.Cleanup(func() { rig.Data.Stall(false) })
	var clients sync.WaitGroup
	lists := make([]error, 3*poolSize/2)
	for i := range lists {
		clients.Go(func() { _, lists[i] = reader.List(bounded(t), client.ListQuery{}) })
	}
	until(t, "every connection waits", func(context.Context) (bool, error) { return rig.Data.Waiting() >= poolSize, nil })
	refused := make([]error, len(orders))
	for i, o := range orders {
		clients.Go(func() { _, refused[i] = rig.Submit(bounded(t), crash.First, o) })
	}
	time.Sleep(6 * time.Second) // a connection is waited for up to 5 s
	struck(t, "pool exhausted", rig.Data.Waiting() >= poolSize)
	rig.Data.Stall(false)
	clients.Wait()
	for what, refused := range map[string][]error{"list": lists, "submission": refused} {
		if errors.Join(refused...) == nil {
			t.Errorf("no %s was refused although there was no connection for it", what)
		}
	}
	settle(t, orders)
}

// TestDatabase_G39_TheServerHasNoRoomForConnections: the role's limit is reached, so that
// no pool gets a new connection.
func TestDatabase_G39_TheServerHasNoRoomForConnections(t *testing.T) {
	stop := load(t, acme, globex)
	time.Sleep(200 * time.Millisecond)
	admin(t, `ALTER ROLE aip_data CONNECTION LIMIT 1`)
	defer admin(t, `ALTER ROLE aip_data CONNECTION LIMIT -1`)
	admin(t, `SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE usename = 'aip_data'`)
	url, err := os.ReadFile(rig.Fleet.Place().Secret("data.url"))
	must(t, err)
	until(t, "the server refuses a connection", func(ctx context.Context) (bool, error) {
		conn, err := pgx.Connect(ctx, strings.TrimSpace(string(url)))
		if err == nil {
			return false, conn.Close(ctx)
		}
		var said *pgconn.PgError
		return errors.As(err, &said) && said.Code == "53300", err
	})
	struck(t, "server without room for connections", true)
	time.Sleep(time.Second)
	admin(t, `ALTER ROLE aip_data CONNECTION LIMIT -1`)
	settle(t, stop())
}
