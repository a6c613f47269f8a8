package localfleet

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/pgcluster"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// leaseTime bounds the wait for every replica's lease.
const leaseTime = 45 * time.Second

// awaitLeases waits until the registry says that every replica takes work.
func (f *Fleet) awaitLeases(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseTime)
	defer cancel()
	for {
		waiting, err := f.withoutLease(ctx)
		if err == nil && len(waiting) == 0 {
			return nil
		}
		timer := time.NewTimer(10 * poll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			e := fleet.Errorf(fleet.Unavailable, "dev.no_lease", "not every replica takes work").Caused(err)
			return e.Because("waiting for %v", waiting).Advise("look at the logs in %s", filepath.Dir(f.place.Log("x")))
		}
	}
}

// withoutLease lists the replicas that are neither ready nor draining.
func (f *Fleet) withoutLease(ctx context.Context) ([]string, error) {
	result, err := f.must(ctx, "get", "replicas", "-o", "json")
	if err != nil {
		return nil, err
	}
	var doc struct {
		Items []registry.ReplicaRecord `json:"items"`
	}
	if err := json.Unmarshal(result.Stdout, &doc); err != nil {
		return nil, unavailable("dev.answer", "aipctl get replicas gave no JSON", err)
	}
	var waiting []string
	for _, h := range f.Hosts() {
		if !slices.ContainsFunc(doc.Items, func(r registry.ReplicaRecord) bool {
			return r.ID.String() == h.Replica && r.Live.Status != fleet.ReplicaOffline
		}) {
			waiting = append(waiting, h.Replica)
		}
	}
	return waiting, nil
}

// Row is one process of a fleet as it is now.
type Row struct {
	Name  string `json:"name"`
	State string `json:"state"` // Running or Stopped
	PID   int    `json:"pid,omitempty"`
	At    string `json:"address,omitempty"`
	Log   string `json:"log"`
}

// States of a row.
const (
	Running = "running"
	Stopped = "stopped"
)

// Number is the process id as text, "" when there is none.
func (r Row) Number() string {
	if r.PID == 0 {
		return ""
	}
	return strconv.Itoa(r.PID)
}

// Status observes every process.
func (f *Fleet) Status() []Row {
	at := map[string]string{ProcessServe: f.AipdURL(), ProcessLifecycle: url(f.state.Ports.Lifecycle)}
	for _, h := range f.Hosts() {
		at[h.Replica] = url(h.Port)
	}
	rows := []Row{f.databaseRow()}
	for _, l := range f.launches() {
		row := Row{Name: l.name, State: Stopped, At: at[l.name], Log: f.place.Log(l.name)}
		if p := f.state.Processes[l.name]; p.Alive() {
			row.State, row.PID = Running, p.PID
		}
		rows = append(rows, row)
	}
	return rows
}

func (f *Fleet) databaseRow() Row {
	row := Row{Name: ProcessPostgres, State: Stopped, At: address(f.state.Ports.Postgres), Log: filepath.Join(f.place.postgres(), "postgres.log")}
	if cluster, err := pgcluster.Attach(f.place.postgres()); err == nil {
		row.State, row.PID, row.Log = Running, cluster.PID(), cluster.LogPath()
	}
	return row
}

// Alive reports whether any process of the fleet runs.
func (f *Fleet) Alive() bool {
	return slices.ContainsFunc(f.Status(), func(r Row) bool { return r.State == Running })
}

// Down stops every recorded process that is still ours: hosts first, so that they
// can say goodbye, the database last.
func (f *Fleet) Down(ctx context.Context) error {
	release, err := f.place.lock()
	if err != nil {
		return err
	}
	defer release()
	launches := f.launches()
	slices.Reverse(launches)
	var failures []error
	for _, l := range launches {
		failures = append(failures, f.Stop(ctx, l.name))
	}
	failures = append(failures, f.stopDatabase(ctx))
	return errors.Join(failures...)
}

// Purge stops the fleet and removes everything that was made for it. Files of others
// in its directory stay.
func (f *Fleet) Purge(ctx context.Context) error {
	if err := f.Down(ctx); err != nil {
		return err
	}
	if err := f.place.removeDatabase(ctx); err != nil {
		return err
	}
	return f.place.remove()
}
