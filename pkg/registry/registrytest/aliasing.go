package registrytest

import (
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func aliasingCases() []Case {
	return []Case{
		{Name: "G34/published_values_are_copies", Why: "a caller that keeps and changes what it published changes what was admitted", Run: aliasIn},
		{Name: "G02/answers_are_copies", Why: "a caller that changes an answer must not change the registry", Run: aliasOut},
	}
}

func aliasIn(w *World) {
	w.standard()
	v, i, q := deskVersion(2), deskInstance(acme()), quota("mine", keep)
	a := admissionOf(v)
	i.ConfigRevision = 2
	w.publish(registry.ChangeSet{
		Versions: []fleet.ConnectorVersion{v}, Admission: a,
		Instances: []fleet.ConnectorInstance{i}, Quotas: []fleet.QuotaPolicy{q},
	})
	w.unchanged("changing what was published", func() {
		v.Manifest.Capabilities[0].Name = "changed"
		v.Manifest.Capabilities[0].InputSchema[2] = 'X'
		v.Manifest.Implementations[0].Profiles[0] = "changed"
		v.AIPVersions[0], v.Attestation.Signers["signature"] = "9.9", "changed"
		v.Attestation.Evidence["signature"] = digest("changed")
		i.Serving[0].Weight = 0
		*q.Tenant, *q.Binding = 0, 0
	})
	a.Package[0] = 'X'
	got, err := w.Reader.Package(w.ctx(), fleet.DigestBytes([]byte("package "+v.Version)))
	w.must(err, "package")
	w.expect(string(got) == "package "+v.Version, "the stored package became %q", got)
}

func aliasOut(w *World) {
	w.standard()
	w.publish(registry.ChangeSet{Quotas: []fleet.QuotaPolicy{quota("mine", keep)}})
	held := w.resolve("one")
	w.settle(w.resolve("two"), fleet.OutcomeUnknown)
	key := registry.ReconciliationKey{Action: actionID("two"), Fence: 1}
	w.must(w.Uncertain.Note(w.ctx(), key, fleet.Probe{At: w.now, Answer: "running"}, w.now, fleet.ReconcileOpen), "note")
	w.unchanged("changing the answers", func() {
		held.Attempt.Scopes[0].Key = "changed"
		l := w.lookup("two")
		before := text(l)
		l.Attempts[0].Settlement.Outcome, l.Attempts[0].Scopes[0].Limit = fleet.OutcomeCompleted, 0
		w.expect(text(w.lookup("two")) == before, "a changed answer to lookup came back")
		item, err := w.Catalog.Get(w.ctx(), acme(), open())
		w.must(err, "get")
		item.Definition.InputSchema[2] = 'X'
		v := w.version(versionID(1))
		v.Manifest.Capabilities[0].Name, v.Attestation.Signers["signature"] = "changed", "changed"
		w.instance(instanceID(acme())).Serving[0].Weight = 0
		s := w.snapshot()
		s.Routes[0].Attempts[0].Scopes[0].Key, s.Counters[0].Current = "changed", 99
		*s.Quotas[0].Tenant = 0
		s.Reconciliations[0].Probes[0].Answer = "changed"
		rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Reconciliations})
		w.must(err, "list")
		rec.Reconciliations[0].Probes[0].Answer = "changed"
	})
}
