package noun

import (
	"strings"

	"github.com/aipfleet/aipfleet/cmd/aipctl/app"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// Noun is one kind of record as an operator types it.
type Noun struct {
	Plural  string // also the registry's name of it
	Single  string
	Kind    string // of the JSON document
	About   string // one sentence: what it is
	Filters string // server-side filters it honours: words of "tenant instance version replica state time"
	Columns []Column
}

// Registry is the registry's name of the noun.
func (n Noun) Registry() registry.Noun { return registry.Noun(n.Plural) }

// Form says how the value of a column is written for people.
type Form int

// Forms.
const (
	Text   Form = iota
	Status      // a status word with its glyph
	Switch      // true is enabled
	Since       // a time in the past
	Until       // a time ahead
	Count       // the length of a list
)

// Column is one column of a noun.
type Column struct {
	Name string // lower case; the header is its upper case
	Path string // into the JSON form, dotted
	Form Form
	Wide bool // only with -o wide or when named by --columns
}

func col(name, path string) Column          { return Column{Name: name, Path: path} }
func form(name, path string, f Form) Column { return Column{Name: name, Path: path, Form: f} }
func wide(name, path string) Column         { return Column{Name: name, Path: path, Wide: true} }
func wideForm(name, path string, f Form) Column {
	return Column{Name: name, Path: path, Form: f, Wide: true}
}

// All lists the nouns of the registry in the order in which they are explained.
func All() []Noun {
	return []Noun{
		types(), versions(), instances(), replicas(), bindings(), quotas(), capabilities(),
		tenants(), routes(), admissions(), reconciliations(), trust(), revocations(), events(), archived(),
	}
}

// Find returns a noun by plural or singular. An unknown one is refused with suggestions.
func Find(word string) (Noun, error) {
	var known []string
	for _, n := range All() {
		if word == n.Plural || word == n.Single {
			return n, nil
		}
		known = append(known, n.Plural, n.Single)
	}
	e := app.Unknown("usage.noun", "noun", word, known)
	if strings.HasPrefix(e.Next, "one of") {
		e = e.Advise("one of: %s", strings.Join(Plurals(), ", "))
	}
	return Noun{}, e
}

// Plurals lists the plural names.
func Plurals() []string {
	var names []string
	for _, n := range All() {
		names = append(names, n.Plural)
	}
	return names
}

// Records takes the noun's slice out of a page.
func (n Noun) Records(r registry.Records) []any {
	switch n.Registry() {
	case registry.Types:
		return app.Items(r.Types)
	case registry.Versions:
		return app.Items(r.Versions)
	case registry.Instances:
		return app.Items(r.Instances)
	case registry.Replicas:
		return app.Items(r.Replicas)
	case registry.Bindings:
		return app.Items(r.Bindings)
	case registry.Quotas:
		return app.Items(r.Quotas)
	case registry.Capabilities:
		return app.Items(r.Capabilities)
	case registry.Tenants:
		return app.Items(r.Tenants)
	case registry.Routes:
		return app.Items(r.Routes)
	case registry.Admissions:
		return app.Items(r.Admissions)
	case registry.Reconciliations:
		return app.Items(r.Reconciliations)
	case registry.TrustRevisions:
		return app.Items(r.Trust)
	case registry.Revocations:
		return app.Items(r.Revocations)
	case registry.Events:
		return app.Items(r.Events)
	case registry.Archived:
		return app.Items(r.Archived)
	}
	return nil
}

// Honours reports whether the registry filters the noun by a named filter.
func (n Noun) Honours(filter string) bool {
	for _, f := range strings.Fields(n.Filters) {
		if f == filter {
			return true
		}
	}
	return false
}
