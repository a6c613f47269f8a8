package dispatch

import (
	"slices"
	"sync"

	"github.com/aipfleet/aipfleet/pkg/action"
	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// flights are the actions this engine has in hand, with their places in the
// schedule, so that a cancel need not wait for its turn.
type flights struct {
	mu   sync.Mutex
	jobs map[fleet.ActionID][]*job
}

// add takes a job in hand. A second one of the same action is taken only if it was
// reopened since: a higher run.
func (f *flights) add(j *job) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.jobs == nil {
		f.jobs = map[fleet.ActionID][]*job{}
	}
	for _, other := range f.jobs[j.record.ID] {
		if other.record.Runs >= j.record.Runs {
			return false
		}
	}
	j.latest = j.record
	f.jobs[j.record.ID] = append(f.jobs[j.record.ID], j)
	return true
}

// note keeps the newest stored record of an action in hand.
func (f *flights) note(r action.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.jobs[r.ID] {
		if r.Revision > j.latest.Revision {
			j.latest = r
		}
	}
}

// latest is the newest record that this engine stored or read of an action in hand;
// false when it has none in hand of that tenant (G18).
func (f *flights) latest(tenant fleet.TenantID, id fleet.ActionID) (newest action.Record, found bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.jobs[id] {
		if j.latest.Tenant == tenant && j.latest.Revision > newest.Revision {
			newest, found = j.latest, true
		}
	}
	return newest, found
}

func (f *flights) remove(j *job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := j.record.ID
	f.jobs[id] = slices.DeleteFunc(f.jobs[id], func(other *job) bool { return other == j })
	if len(f.jobs[id]) == 0 {
		delete(f.jobs, id)
	}
}

func (f *flights) has(id fleet.ActionID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.jobs[id]) > 0
}

// cancel wakes an action that waits for its turn.
func (f *flights) cancel(id fleet.ActionID) {
	f.mu.Lock()
	jobs := slices.Clone(f.jobs[id])
	f.mu.Unlock()
	cancelAll(jobs)
}

// cancelWaiting wakes every action that waits for its turn.
func (f *flights) cancelWaiting() {
	f.mu.Lock()
	var all []*job
	for _, jobs := range f.jobs {
		all = append(all, jobs...)
	}
	f.mu.Unlock()
	cancelAll(all)
}

func cancelAll(jobs []*job) {
	for _, j := range jobs {
		if j.ticket != nil {
			j.ticket.Cancel()
		}
	}
}

// news wakes those who wait for a change of an action in this process.
type news struct {
	mu    sync.Mutex
	topic map[fleet.ActionID]*topic
}

type topic struct {
	changed chan struct{} // closed at the next change
	stored  action.Record // what was stored then; read it after changed has closed
	readers int
}

// of returns the topic of an action, and what to call when it is not needed any more.
func (n *news) of(id fleet.ActionID) (*topic, func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.topic == nil {
		n.topic = map[fleet.ActionID]*topic{}
	}
	t := n.topic[id]
	if t == nil {
		t = &topic{changed: make(chan struct{})}
		n.topic[id] = t
	}
	t.readers++
	return t, func() { n.drop(id, t) }
}

func (n *news) drop(id fleet.ActionID, t *topic) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t.readers--; t.readers == 0 && n.topic[id] == t {
		delete(n.topic, id)
	}
}

// tell says how the action is stored now.
func (n *news) tell(r action.Record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t := n.topic[r.ID]; t != nil {
		t.stored = r
		close(t.changed)
		delete(n.topic, r.ID)
	}
}
