package sim

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"
)

// Report is what one run, or many, came to.
type Report struct {
	Seeds      int            `json:"seeds"`
	Actions    int            `json:"actions"`
	Effects    int            `json:"effects"`
	Messages   int            `json:"messages"`
	Faults     map[string]int `json:"faults"`     // what was made to fail
	Moves      map[string]int `json:"moves"`      // steps of actions: "accepted>queued"
	Outcomes   map[string]int `json:"outcomes"`   // how attempts settled, questions were decided, hosts refused
	Violations []Violation    `json:"violations"` // broken promises
	Trace      uint64         `json:"trace"`      // digest of everything that happened, and when; of one run
	Virtual    time.Duration  `json:"virtual"`    // time that passed inside
}

// Violation is one broken promise.
type Violation struct {
	Seed      uint64 `json:"seed"`
	Guarantee string `json:"guarantee"`
	Subject   string `json:"subject"`
	What      string `json:"what"`
}

// Add sums reports up. Traces do not add.
func (r *Report) Add(o Report) {
	r.Seeds, r.Actions, r.Effects, r.Messages = r.Seeds+o.Seeds, r.Actions+o.Actions, r.Effects+o.Effects, r.Messages+o.Messages
	r.Virtual += o.Virtual
	add := func(into *map[string]int, from map[string]int) {
		if *into == nil {
			*into = map[string]int{}
		}
		for name, n := range from {
			(*into)[name] += n
		}
	}
	add(&r.Faults, o.Faults)
	add(&r.Moves, o.Moves)
	add(&r.Outcomes, o.Outcomes)
	r.Violations = append(r.Violations, o.Violations...)
}

// Missing lists the kinds of faults and the moves that never happened.
func (r Report) Missing() []string {
	var missing []string
	for _, kind := range FaultKinds() {
		if r.Faults[kind] == 0 {
			missing = append(missing, "fault "+kind)
		}
	}
	for _, move := range ActionMoves() {
		if r.Moves[move] == 0 {
			missing = append(missing, "move "+move)
		}
	}
	return missing
}

// Counted lists counts by name.
func Counted(counts map[string]int) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprintf("%9d  %s", counts[name], name))
	}
	return lines
}

// tally gathers one run's report and its trace: what happened to whom at which
// instant. What happens at one instant happens side by side and has no order.
type tally struct {
	mu     sync.Mutex
	report Report
	past   uint64        // digest of earlier instants
	now    uint64        // sum of the digests of what happened at this one
	at     time.Duration // this instant
	closed bool          // the trace is complete
	line   []byte
	lines  func(string) // nil unless somebody reads along
	since  func() time.Duration
}

func newTally(since func() time.Duration, lines func(string)) *tally {
	return &tally{since: since, lines: lines, report: Report{
		Seeds: 1, Faults: map[string]int{}, Moves: map[string]int{}, Outcomes: map[string]int{},
	}}
}

// note folds an event into the trace.
func (t *tally) note(what, subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fold(what, subject)
}

// say tells those who read along, and nobody else.
func (t *tally) say(what, subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines(fmt.Sprintf("%14.9f %s %s", t.since().Seconds(), what, subject))
}

func (t *tally) fold(what, subject string) {
	at := t.since()
	if t.lines != nil {
		t.lines(fmt.Sprintf("%14.9f %s %s", at.Seconds(), what, subject))
	}
	if t.closed {
		return
	}
	if at != t.at {
		t.past, t.now, t.at = mix(t.past+t.now+uint64(t.at)), 0, at
	}
	t.line = append(append(append(t.line[:0], what...), ' '), subject...)
	h := fnv.New64a()
	_, _ = h.Write(t.line) // does not fail
	t.now += mix(h.Sum64())
}

// close completes the trace.
func (t *tally) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.report.Trace = mix(t.past + t.now + uint64(t.at))
}

func (t *tally) fault(kind, subject string) { t.count(t.report.Faults, "fault ", kind, subject) }
func (t *tally) move(move, subject string)  { t.count(t.report.Moves, "move ", move, subject) }
func (t *tally) outcome(name, subject string) {
	t.count(t.report.Outcomes, "outcome ", name, subject)
}

// total adds to an outcome what is counted at the end, in no order.
func (t *tally) total(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Outcomes[name]++
}

func (t *tally) count(in map[string]int, prefix, name, subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	in[name]++
	t.fold(prefix+name, subject)
}

func (t *tally) violate(v Violation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Violations = append(t.report.Violations, v)
	t.fold("VIOLATION "+v.Guarantee+" "+v.What, v.Subject)
}
