package sim

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	actionmemory "github.com/aipfleet/aipfleet/pkg/action/memory"
	"github.com/aipfleet/aipfleet/pkg/envelope"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/registry/memory"
)

// Times of a run, all virtual.
const (
	submitTime = 60 * time.Second // in which actions are submitted
	stormTime  = 90 * time.Second // in which things fail
	calmLimit  = 40 * time.Minute // by which everything must be quiet
	leaseTTL   = 30 * time.Second
	ownerHold  = 6 * time.Second
	askAge     = 15 * time.Second // after which an uncertain attempt is the operator's
)

// Plant is a defect to plant. The zero value is none.
type Plant struct {
	Host      host.Defects
	LastSend  bool // an attempt is judged by its last send alone
	NewTarget bool // an action whose connection was refused goes to another replica
}

// Options of a run. Dir is required.
type Options struct {
	Dir     string // for journals; the caller removes it
	Actions int    // 0 means 50
	Plant   Plant
	Lines   func(string) // reads the trace along; nil is nobody
}

// world is one run.
type world struct {
	dice
	options Options
	began   time.Time
	calm    atomic.Bool // faults are over
	*tally

	ctx  context.Context // ends when the run is over
	over context.CancelFunc
	all  sync.WaitGroup // every goroutine

	registry *memory.Registry
	store    *actionmemory.Store
	network  *network
	provider *provider
	control  *control
	hosts    []*machine
	gateways []*gateway
	clients  []*client
	gateway  envelope.Signer
	operator envelope.Signer

	wrong   sync.Mutex
	allowed map[fleet.ActionID]int // effects beyond the first that decisions allow (G25)
}

// Run plays one seed. It must be called in a synctest bubble, and returns when every
// goroutine of the run has ended.
func Run(seed uint64, o Options) Report {
	if o.Actions == 0 {
		o.Actions = 50
	}
	w := newWorld(seed, o)
	w.start()
	w.play()
	w.close()
	w.judge()
	w.stop()
	w.report.Virtual = w.elapsed()
	return w.report
}

func newWorld(seed uint64, o Options) *world {
	w := &world{dice: dice{seed}, options: o, began: time.Now(), gateway: signerOf(1), operator: signerOf(2), allowed: map[fleet.ActionID]int{}}
	w.tally = newTally(w.elapsed, o.Lines)
	w.ctx, w.over = context.WithCancel(context.Background())
	w.registry = memory.New(memory.Config{RingKey: fixed(3), CursorKey: fixed(4), Now: time.Now})
	w.store = actionmemory.New(time.Now)
	w.provider = newProvider(w)
	w.network = newNetwork(w)
	w.control = newControl(w)
	for _, p := range places() {
		w.hosts = append(w.hosts, newMachine(w, p))
	}
	for _, name := range []string{"aipd-1", "aipd-2"} {
		w.gateways = append(w.gateways, newGateway(w, name))
	}
	for i := range o.Actions {
		w.clients = append(w.clients, newClient(w, i))
	}
	return w
}

// elapsed is the time since the run began.
func (w *world) elapsed() time.Duration { return time.Since(w.began) }

// stormy reports whether things may fail now.
func (w *world) stormy() bool { return !w.calm.Load() && w.elapsed() < stormTime }

// rash reports the worlds, every eighth, in which an operator decides without asking.
// There answers are slow and many calls refused, so that definite answers come late, to
// actions that somebody thought had not happened.
func (w *world) rash() bool { return w.seed%8 == 5 }

func (w *world) run(f func()) { w.all.Go(f) }

func (w *world) start() {
	w.publish()
	for _, m := range w.hosts {
		w.run(m.live)
	}
	for i, g := range w.gateways {
		w.run(func() {
			sleep(w.ctx, time.Duration(i+1)*137*time.Millisecond)
			g.live()
		})
	}
	for _, c := range w.clients {
		w.run(c.live)
	}
	w.run(w.drains)
	w.run(w.accepts)
	w.run(w.decides)
}

// play lets the storm pass and waits for quiet.
func (w *world) play() {
	sleep(w.ctx, stormTime)
	w.calm.Store(true)
	for w.elapsed() < calmLimit && !w.quiet() {
		sleep(w.ctx, 3*time.Second)
	}
}

func (w *world) stop() {
	w.over()
	w.all.Wait()
}

// rates of a process's end and of its being stopped, at each crossing.
const (
	killRate   = 0.004
	freezeRate = 0.0004
)

// cross is the way of a process to or from something outside it. Here it may be
// killed or stopped; a dead one does not pass.
func (w *world) cross(l *life, killed, subject string) error {
	if w.stormy() && !l.dead() {
		n := l.next(killed)
		switch u := w.unit(killed, l.name+" "+subject, n); {
		case u < killRate:
			w.fault(killed, l.name)
			l.kill()
		case u < killRate+freezeRate:
			w.fault(aipdFreeze, l.name)
			l.freeze(w.between(ownerHold, 3*ownerHold, "freeze "+killed, l.name, n))
		}
	}
	return w.pass(l, killed+" "+subject)
}

// pass is life.pass with a moment drawn for the one who passes.
func (w *world) pass(l *life, subject string) error {
	moment := time.Duration(0)
	if l.thawAt().After(time.Now()) {
		moment = w.between(time.Microsecond, 50*time.Millisecond, "thaw", subject, l.next("thaw "+subject))
	}
	return l.pass(moment)
}

// broken says that a promise was broken.
func (w *world) broken(guarantee, subject, what string) {
	w.violate(Violation{Seed: w.seed, Guarantee: guarantee, Subject: subject, What: what})
}
