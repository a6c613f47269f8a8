package crash_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/scripts/crash"
)

// TestRetention_G44_AnArchivedActionNeverRunsAgain: an action that is long over is archived
// by one of two aipd; its host, which is down at first, hears of it once it is back; a
// repeat of its id or of its key is refused and calls nobody; what is uncertain stays.
func TestRetention_G44_AnArchivedActionNeverRunsAgain(t *testing.T) {
	o, err := crash.NewOrder(globex, "done long ago")
	must(t, err)
	o.Request.IdempotencyKey = "key of " + o.ID().String()
	_, err = rig.Submit(bounded(t), crash.First, o)
	must(t, err)
	becomes(t, o, action.Completed)
	doubtful := retryable(t, "may still run")
	must(t, rig.AwaitQuiet(bounded(t)))
	host := rig.Daemons[only]
	must(t, host.Kill())
	struck(t, "SIGKILL of a host that is to hear of an end", host.Killed())
	for _, old := range []*crash.Order{o, doubtful} {
		must(t, age(bounded(t), old, 2*crash.Keep))
	}
	c, err := rig.Client(crash.Second, globex)
	must(t, err)
	until(t, "it is archived", func(ctx context.Context) (bool, error) {
		_, err := c.Get(ctx, o.ID(), 0)
		return fleet.CodeOf(err) == action.CodeArchived, err
	})
	if told, err := heard(bounded(t), o); err != nil || told {
		t.Errorf("a dead host was told: %v, %v", told, err)
	}
	if v, err := c.Get(bounded(t), doubtful.ID(), 0); err != nil || v.State != action.Retryable {
		t.Errorf("what may still run is %s, %v", v.State, err)
	}
	again := o.Request
	for range 2 {
		if _, err := c.Submit(bounded(t), again, 0); fleet.CodeOf(err) != action.CodeArchived || !fleet.Is(err, fleet.Conflict) {
			t.Errorf("submitted again: %v", err)
		}
		other, err := crash.NewOrder(globex, "done long ago")
		must(t, err)
		again.ID = other.ID() // the same key under another id
	}
	must(t, host.Start())
	until(t, "its host hears of it", func(ctx context.Context) (bool, error) { return heard(ctx, o) })
	if calls, err := rig.Calls(o); err != nil || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
	settle(t, []*crash.Order{doubtful})
}

// age makes an action older, as if it had ended long ago. It does as the database's
// administrator what no part of the fleet may.
func age(ctx context.Context, o *crash.Order, by time.Duration) error {
	return asAdmin(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "UPDATE aip.action_state SET updated_at = updated_at - $2::bigint * interval '1 microsecond' WHERE action_id = $1::text",
			o.ID().String(), by.Microseconds())
		return err
	})
}

// heard reports whether the host of an archived action has heard of its end.
func heard(ctx context.Context, o *crash.Order) (told bool, err error) {
	err = asAdmin(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM aip.action_archive WHERE action_id = $1::text AND told_at IS NOT NULL)", o.ID().String()).Scan(&told)
	})
	return told, err
}

func asAdmin(ctx context.Context, f func(conn *pgx.Conn) error) error {
	url, err := os.ReadFile(rig.Fleet.Place().Secret("admin.url"))
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, strings.TrimSpace(string(url)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return f(conn)
}
