package dispatch

import (
	"slices"
	"sync"

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
	f.jobs[j.record.ID] = append(f.jobs[j.record.ID], j)
	return true
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
	changed chan struct{}
	readers int
}

// of returns a channel that closes at the next change, and what to call when it
// is not needed any more.
func (n *news) of(id fleet.ActionID) (<-chan struct{}, func()) {
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
	return t.changed, func() { n.drop(id, t) }
}

func (n *news) drop(id fleet.ActionID, t *topic) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t.readers--; t.readers == 0 && n.topic[id] == t {
		delete(n.topic, id)
	}
}

// tell says that the action changed.
func (n *news) tell(id fleet.ActionID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t := n.topic[id]; t != nil {
		close(t.changed)
		delete(n.topic, id)
	}
}
