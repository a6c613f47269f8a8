// Package registrytest is the one conformance suite of every registry.
//
// It answers "does this registry keep the promises of package registry?": [Run] plays
// every case of [Cases] against fresh subjects, and audits a snapshot after each. The
// name of a case begins with the guarantee it defends, and its Why says in one line
// what would go wrong without it.
//
// The suite is tested itself: deliberately broken registries must each be caught.
//
// It does not test what only one store has: SQL roles, migrations, crashes.
package registrytest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Subject is one empty registry under test. The contracts may be served by different
// objects, for instance under different database roles.
type Subject struct {
	Catalog   registry.Catalog
	Router    registry.Router
	Reader    registry.Reader
	Publisher registry.Publisher
	Fleet     registry.Fleet
	Uncertain registry.Uncertain
	Custody   registry.Custody

	// SetNow sets the registry's clock. It may stand still afterwards, or run on from
	// there at its usual pace.
	SetNow func(time.Time)
	// Archive moves a settled route away and leaves its tombstone.
	Archive func(context.Context, fleet.ActionID) error
	// RingKey is the key that the deployment was made with.
	RingKey []byte
	// Restart gives the same registry as a new process would see it. It is nil when
	// the state is lost at exit; then the cases that need it are left out.
	Restart func() Subject
}

// Options bound how long the randomised cases run.
type Options struct {
	ModelRuns  int // sequences of the model; 0 means 20
	ModelSteps int // operations of one sequence; 0 means 60
	Callers    int // of the concurrent cases; 0 means 16
}

func (o Options) withDefaults() Options {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.ModelRuns, 20)
	def(&o.ModelSteps, 60)
	def(&o.Callers, 16)
	return o
}

// TB is what a case needs of a test. *testing.T is one; the suite's own test records
// failures with another.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Context() context.Context
}

// Case is one promise put to the test.
type Case struct {
	Name    string // "G07/second_settlement_reports_the_first"
	Why     string // what would go wrong
	Run     func(w *World)
	Lasting bool // needs a registry whose state outlives its process
}

// Cases lists every case, by topic.
func Cases() []Case {
	return slices.Concat(
		catalogCases(), publishCases(), resolveCases(), reuseCases(), orderCases(),
		capacityCases(), settleCases(), circuitCases(), leaseCases(), custodyCases(), expiryCases(),
		tenancyCases(), boundsCases(), cancelCases(), aliasingCases(), uncertainCases(), revocationCases(),
		concurrentCases(), incidentCases(), modelCases(),
	)
}

// Run plays the whole suite. newSubject makes an empty registry, and cleans it up
// with the t it was given.
func Run(t *testing.T, newSubject func(t *testing.T) Subject, options Options) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			s := newSubject(t)
			if c.Lasting && s.Restart == nil {
				t.Log("the subject's state is lost at exit, as it says")
				return
			}
			t.Log(c.Why)
			play(t, c, s, func() Subject { return newSubject(t) }, options)
		})
	}
}

// play runs one case and audits what it left. fresh makes further empty subjects.
func play(t TB, c Case, s Subject, fresh func() Subject, options Options) {
	w := newWorld(t, s, options)
	w.fresh = fresh
	c.Run(w)
	w.audit()
}
