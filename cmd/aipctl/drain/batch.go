package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// work is one command under way: what is known of every replica, batch by batch.
type work struct {
	*Options
	reg     *app.Registry
	states  []State // of every replica, by id
	batches [][]int // indexes of states
	room    *room
	first   error // why the first one that failed did
}

func newWork(o *Options, reg *app.Registry, states []State, room *room) *work {
	w := &work{Options: o, reg: reg, states: states, room: room}
	all := make([]int, len(states))
	for i := range all {
		all[i] = i
	}
	size := o.Batch
	if size == 0 || o.Want == fleet.IntentRun {
		size = max(len(all), 1)
	}
	w.batches = slices.Collect(slices.Chunk(all, size))
	for n, batch := range w.batches {
		for _, i := range batch {
			if len(w.batches) > 1 {
				w.states[i].Batch = n + 1
			}
		}
	}
	return w
}

// run drains batch after batch. Whatever ends it, what came of every replica is printed.
func (w *work) run(ctx context.Context) error {
	for i := range w.states {
		w.states[i].Result, w.states[i].Drained = NotStarted, false
	}
	ended := w.all(ctx)
	if ended != nil && len(w.states) == 1 && w.states[0].Result == NotStarted {
		return ended
	}
	if err := w.print(); err != nil {
		return err
	}
	if ended != nil {
		return ended
	}
	return w.verdict()
}

// all ends early when the registry cannot be asked any more, or when told to stop.
func (w *work) all(ctx context.Context) error {
	for n, batch := range w.batches {
		if n > 0 && w.BatchWait > 0 {
			w.App.Progressf("next batch in %s", app.Duration(w.BatchWait))
			if err := app.Pause(ctx, w.BatchWait); err != nil {
				return err
			}
		}
		if err := w.wait(ctx, n, batch); err != nil {
			return err
		}
		if w.OnError == "stop" && slices.ContainsFunc(batch, func(i int) bool { return !w.well(w.states[i]) }) {
			return nil
		}
	}
	return nil
}

// well reports whether a replica came to what was asked for.
func (w *work) well(s State) bool {
	return s.Result == Drained || s.Result == Undrained || s.Result == Draining && w.Detach
}

// begin says what is wanted of each replica of a batch that may be begun and was not.
func (w *work) begin(ctx context.Context, batch []int) error {
	var ids []fleet.ReplicaID
	for _, i := range batch {
		if w.states[i].Result == NotStarted {
			ids = append(ids, w.states[i].Replica)
		}
	}
	if err := w.room.see(ctx, w.reg, ids, w.App.Now); err != nil {
		return err
	}
	return w.intend(ctx, batch)
}

// intend sets the intents. One that is refused does not keep the others; a registry that
// cannot be reached does.
func (w *work) intend(ctx context.Context, batch []int) error {
	for _, i := range batch {
		s := &w.states[i]
		if s.Result != NotStarted {
			continue
		}
		if s.Error = w.room.take(s.Replica); s.Error != nil {
			continue
		}
		_, err := w.reg.Intend(ctx, registry.Intent{
			Replica: s.Replica, Want: w.Want, Actor: w.App.Actor(), Reason: w.App.ReasonOr("operator " + string(w.Want)),
		})
		switch {
		case err == nil:
			s.Result = Draining
			if w.Want == fleet.IntentRun {
				s.Result = Undrained
			}
			continue
		case ctx.Err() != nil || len(w.states) == 1:
			return err
		}
		e := fleet.AsError(err, "drain.intent")
		s.Result, s.Error = Failed, &Failure{Code: e.Code, Message: e.What, Next: e.Next}
		w.App.Progressf("%s failed: %s", s.Replica, s.Error.Message)
		if w.first == nil {
			w.first = err
		}
		if e.Kind == fleet.Unavailable {
			return w.verdict()
		}
	}
	return nil
}

// wait begins the replicas of a batch, as soon as there is room, and looks until every one
// is drained or the batch's deadline is over. Detached it begins and looks once.
func (w *work) wait(ctx context.Context, n int, batch []int) error {
	until := w.App.Now().Add(w.Deadline)
	last := ""
	for {
		if err := w.begin(ctx, batch); err != nil {
			return err
		}
		if err := w.look(ctx, batch); err != nil {
			return err
		}
		if w.Detach {
			return nil
		}
		line, done := w.progress(n, batch)
		if line != last {
			w.App.Progressf("%s", line)
			last = line
		}
		if done || w.Deadline > 0 && !w.App.Now().Before(until) {
			return nil
		}
		if err := app.Pause(ctx, w.Interval); err != nil {
			return err
		}
	}
}

// look observes those of a batch whose end is not known.
func (w *work) look(ctx context.Context, batch []int) error {
	var ids []fleet.ReplicaID
	at := map[fleet.ReplicaID]int{}
	for _, i := range batch {
		if s := w.states[i]; s.Result == Draining || s.Result == Undrained {
			ids, at[s.Replica] = append(ids, s.Replica), i
		}
	}
	if len(ids) == 0 {
		return nil
	}
	states, err := observe(ctx, w.App, w.reg, ids)
	if err != nil {
		return err
	}
	for _, now := range states {
		was := w.states[at[now.Replica]]
		now.Batch, now.Result = was.Batch, was.Result
		if now.Drained && w.Want == fleet.IntentDrain {
			now.Result = Drained
		}
		w.states[at[now.Replica]] = now
	}
	return nil
}

func (w *work) progress(n int, batch []int) (line string, done bool) {
	states := make([]State, len(batch))
	for k, i := range batch {
		states[k] = w.states[i]
	}
	line = summary(states)
	if len(w.batches) > 1 {
		line = fmt.Sprintf("batch %d of %d: %s", n+1, len(w.batches), line)
	}
	return line, !slices.ContainsFunc(states, func(s State) bool { return s.Result == Draining || s.Result == NotStarted })
}

// summary counts what is drained and names the first of the others.
func summary(states []State) string {
	rest := slices.DeleteFunc(slices.Clone(states), func(s State) bool { return s.Drained })
	line := fmt.Sprintf("%d of %d drained", len(states)-len(rest), len(states))
	if len(rest) > 0 {
		line += "; " + named(rest)
	}
	return line
}

func named(states []State) string {
	var parts []string
	for i, s := range states {
		if i == shownOfMany {
			parts = append(parts, fmt.Sprintf("and %d more", len(states)-shownOfMany))
			break
		}
		parts = append(parts, s.Replica.String()+" "+s.why())
	}
	return strings.Join(parts, "; ")
}

// verdict is nil when every replica came to what was asked for. Only waiting ended, for
// work or for room to begin at all: exit code 6. Some failed or were not begun: 8. Nothing was changed: the code of the first
// failure.
func (w *work) verdict() error {
	count := map[Result]int{}
	rest := []State{}
	for _, s := range w.states {
		count[s.Result]++
		if !w.well(s) {
			rest = append(rest, s)
		}
	}
	switch {
	case len(rest) == 0:
		return nil
	case count[Failed]+count[NotStarted] == len(w.states):
		if w.first == nil {
			return w.full(rest)
		}
		return w.first
	case count[Draining] == len(rest):
		return w.late(rest)
	}
	verb := "drained"
	if w.Want == fleet.IntentRun {
		verb = "undrained"
	}
	e := fleet.Errorf(fleet.Unavailable, "drain.partial", "%d of %d are %s", len(w.states)-len(rest), len(w.states), verb).
		Because("%d failed, %d still drain, %d were not started; %s", count[Failed], count[Draining], count[NotStarted], named(rest)).
		Advise("each replica's own result says why; then repeat the command, which goes on where this one ended")
	return app.WithExit(e, app.ExitPartial)
}

// late ends with exit code 6, naming what holds.
func (w *work) late(rest []State) error {
	e := fleet.Errorf(fleet.Unavailable, "drain.timeout", "not drained within %s", app.Duration(w.Deadline)).
		Because("%s", summary(w.states)).
		Advise("the drain goes on; wait longer with the same command, or look with: aipctl get routes --reserved --replica %s", rest[0].Replica)
	return app.WithExit(e, app.ExitTimeout)
}

// full ends with exit code 6 when there was no room to begin any.
func (w *work) full(rest []State) error {
	e := fleet.Errorf(fleet.Unavailable, codeFull, "nothing was begun within %s: too many are out of routing already", app.Duration(w.Deadline)).
		Because("%s", named(rest)).
		Advise("bring others of the instance back, or declare more of them; then repeat the command")
	return app.WithExit(e, app.ExitTimeout)
}

// pace says how fast it goes, for the question that is asked.
func (w *work) pace() string {
	text := ""
	if len(w.batches) > 1 {
		text = fmt.Sprintf(", in %d batches of at most %d", len(w.batches), w.Batch)
		if w.BatchWait > 0 {
			text += fmt.Sprintf(" with %s between", app.Duration(w.BatchWait.Round(time.Millisecond)))
		}
	}
	if w.MaxUnavailable != "" {
		text += fmt.Sprintf(", at most %s of an instance out of routing", w.MaxUnavailable)
	}
	return text
}
