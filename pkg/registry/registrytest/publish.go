package registrytest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

func publishCases() []Case {
	return []Case{
		{Name: "G13/one_revision_for_each_publication", Why: "a skipped or repeated revision makes cursors and plans ambiguous", Run: publishRevisions},
		{Name: "G13/refused_set_changes_nothing", Why: "half a publication is a fleet that nobody decided on", Run: publishAtomic},
		{Name: "G13/unchanged_set_publishes_nothing", Why: "a repeated apply must be quiet", Run: publishUnchanged},
		{Name: "G13/moved_revision_is_refused", Why: "a plan made against an older catalog must not be applied to a newer one", Run: publishMoved},
		{Name: "G13/preview_is_apply_without_the_write", Why: "what the operator confirmed must be what happens", Run: publishPreview},
		{Name: "G17/later_routes_see_the_publication", Why: "after disabling a binding, nothing may be routed through it", Run: publishSeen},
		{Name: "G34/admitted_version_never_changes", Why: "a version whose bytes change was not the one admitted", Run: publishVersionFixed},
		{Name: "G34/artifact_text_and_sequence_are_unique", Why: "two versions that cannot be told apart defeat revocation", Run: publishVersionUnique},
		{Name: "G33/only_an_admission_makes_a_version", Why: "a version without evaluated evidence must not become routable", Run: publishNeedsAdmission},
		{Name: "G33/unqualified_version_cannot_become_active", Why: "activation is not a way round admission", Run: publishUnqualified},
		{Name: "G35/package_is_kept", Why: "a decision can be re-run only over the bytes it was made on", Run: publishPackage},
		{Name: "G34/incompatible_contract_is_refused", Why: "a later version must not break callers of the earlier one", Run: publishIncompatible},
		{Name: "G02/declared_replica_never_changes", Why: "a changed endpoint or key under an old name is another process", Run: publishReplicaFixed},
		{Name: "G05/capacity_not_below_what_is_in_flight", Why: "active above capacity breaks every later count", Run: publishCapacity},
		{Name: "G18/binding_stays_inside_its_tenant", Why: "a binding to another tenant's account uses its credentials", Run: publishForeignInstance},
		{Name: "G13/revisions_must_grow", Why: "a change under an old revision cannot be told from the old state", Run: publishMustGrow},
		{Name: "G13/references_must_exist", Why: "a record that points nowhere fails only when it is used", Run: publishReferences},
		{Name: "G23/version_moves_only_as_listed", Why: "a revoked version that comes back was not revoked", Run: publishTransitions},
		{Name: "G08/deprecated_version_is_not_newly_listed", Why: "deprecation that new instances can ignore is none", Run: publishDeprecated},
		{Name: "G15/leases_do_not_move_the_revision", Why: "a catalog that moves with every heartbeat has no stable page", Run: publishLeasesApart},
		{Name: "G13/changes_are_journaled", Why: "who changed what, and why, must be answerable", Run: publishJournal},
		{Name: "G13/trust_revisions_grow_by_one", Why: "a gap in trust revisions hides a policy under which something was admitted", Run: publishTrust},
	}
}

func text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// unchanged runs f and expects that the snapshot is the same afterwards, but for its time.
func (w *World) unchanged(what string, f func()) {
	w.Helper()
	before := w.state()
	f()
	w.expect(before == w.state(), "%s changed the registry", what)
}

// state is the whole snapshot as text, but for its time and the order of its sets.
func (w *World) state() string {
	w.Helper()
	s := w.snapshot()
	s.At = time.Time{}
	slices.SortFunc(s.Candidates, func(a, b registry.CandidateChain) int { return strings.Compare(text(a), text(b)) })
	slices.SortFunc(s.Counters, func(a, b registry.Counter) int { return strings.Compare(text(a), text(b)) })
	s.Counters = slices.DeleteFunc(s.Counters, func(c registry.Counter) bool { return c.Current == 0 })
	return text(s)
}

func publishRevisions(w *World) {
	w.expect(w.revision() == 0, "an empty registry is at revision %d", w.revision())
	w.standard()
	w.expect(w.revision() == 3, "after three publications the revision is %d", w.revision())
	p := w.publish(registry.ChangeSet{Bindings: []fleet.CapabilityBinding{deskBinding(globex(), read())}})
	w.expect(p.Before == 3 && p.After == 4 && p.Changed && len(p.Changes) == 1, "the publication reports %+v", p)
	w.expect(w.revision() == 4, "the revision is %d", w.revision())
}

func publishAtomic(w *World) {
	w.standard()
	bad := deskBinding(acme(), parsed(fleet.ParseCapabilityID("desk:none")))
	w.unchanged("a refused change set", func() {
		_, err := w.apply(registry.ChangeSet{
			Types:    []fleet.ConnectorType{{ID: parsed(fleet.ParseTypeID("ctype_other")), Name: "Other", Owner: "suite", Enabled: true}},
			Quotas:   []fleet.QuotaPolicy{quota("tight", func(*fleet.QuotaPolicy) {})},
			Bindings: []fleet.CapabilityBinding{deskBinding(globex(), read()), bad},
		})
		w.refused(err, fleet.Conflict, "publish.capability")
	})
	w.expect(w.revision() == 3, "the revision moved to %d", w.revision())
}

func publishUnchanged(w *World) {
	w.standard()
	p := w.publish(registry.ChangeSet{
		Types: []fleet.ConnectorType{deskType()}, Versions: []fleet.ConnectorVersion{deskVersion(1)},
		Instances: []fleet.ConnectorInstance{deskInstance(acme())}, Replicas: []fleet.Replica{deskReplica(acme(), "a")},
		Bindings: []fleet.CapabilityBinding{deskBinding(acme(), open())},
	})
	w.expect(!p.Changed && p.After == 3 && p.Before == 3 && len(p.Changes) == 0, "a repeated set reports %+v", p)
	w.expect(w.revision() == 3, "the revision moved to %d", w.revision())
}

func publishMoved(w *World) {
	w.standard()
	set := registry.ChangeSet{Actor: "suite", Reason: "test", Bindings: []fleet.CapabilityBinding{deskBinding(globex(), read())}}
	for _, expected := range []uint64{0, 2, 4} {
		_, err := w.Publisher.Apply(w.ctx(), set, expected)
		w.refused(err, fleet.Conflict, "publish.revision_moved")
	}
}

func publishPreview(w *World) {
	w.standard()
	b := deskBinding(acme(), open())
	b.Priority, b.PolicyRevision = 3, 2
	set := registry.ChangeSet{Actor: "suite", Reason: "test", Bindings: []fleet.CapabilityBinding{b, deskBinding(globex(), read())}}
	var preview registry.Publication
	w.unchanged("a preview", func() {
		var err error
		preview, err = w.Publisher.Preview(w.ctx(), set)
		w.must(err, "preview")
	})
	done := w.publish(set)
	w.expect(text(preview) == text(done), "preview said %s, apply did %s", text(preview), text(done))
	w.expect(len(done.Changes) == 2, "there are %d changes", len(done.Changes))
	for _, c := range done.Changes {
		if c.Op == "update" {
			w.expect(strings.Contains(text(c.Fields), `{"path":"priority","from":"10","to":"3"}`), "the difference is %s", text(c.Fields))
		}
	}
	set.Bindings[0].Instance = instanceID(globex())
	_, err := w.Publisher.Preview(w.ctx(), set)
	w.refused(err, fleet.Conflict, "publish.reference")
}

func publishSeen(w *World) {
	w.standard()
	pinned := w.resolve("before")
	w.publish(toggled(registry.ChangeSet{Bindings: []fleet.CapabilityBinding{deskBinding(acme(), open())}}, false, 2))
	_, err := w.try("after")
	w.refused(err, fleet.BindingUnavailable, "")
	w.expect(text(w.resolve("before")) == text(pinned), "the pinned action's assignment changed")
	w.publish(toggled(registry.ChangeSet{Bindings: []fleet.CapabilityBinding{deskBinding(acme(), open())}}, true, 3))
	a := w.resolve("after")
	w.expect(a.Route.CatalogRevision == w.revision() && a.Route.BindingPolicyRevision == 3, "the route was decided at %+v", a.Route)
}

func publishVersionFixed(w *World) {
	w.standard()
	for what, edit := range map[string]func(*fleet.ConnectorVersion){
		"manifest digest": func(v *fleet.ConnectorVersion) { v.ManifestDigest = digest("other") },
		"artifact digest": func(v *fleet.ConnectorVersion) { v.ArtifactDigest = digest("other") },
		"manifest":        func(v *fleet.ConnectorVersion) { v.Manifest.Capabilities[0].Description = "other" },
		"evidence": func(v *fleet.ConnectorVersion) {
			v.Attestation.Evidence = map[string]fleet.Digest{"sbom": digest("other")}
		},
		"sequence": func(v *fleet.ConnectorVersion) { v.ReleaseSequence = 9 },
	} {
		v := deskVersion(1)
		edit(&v)
		_, err := w.apply(registry.ChangeSet{Versions: []fleet.ConnectorVersion{v}, Admission: admissionOf(v)})
		w.expect(fleet.Is(err, fleet.Conflict), "another %s under the same version: %v", what, err)
	}
}

func publishVersionUnique(w *World) {
	w.standard()
	for code, edit := range map[string]func(*fleet.ConnectorVersion){
		"publish.artifact":         func(v *fleet.ConnectorVersion) { v.ArtifactDigest = deskVersion(1).ArtifactDigest },
		"publish.version_text":     func(v *fleet.ConnectorVersion) { v.Version = deskVersion(1).Version },
		"publish.release_sequence": func(v *fleet.ConnectorVersion) { v.ReleaseSequence = 1 },
	} {
		v := deskVersion(2)
		edit(&v)
		_, err := w.apply(registry.ChangeSet{Versions: []fleet.ConnectorVersion{v}, Admission: admissionOf(v)})
		w.refused(err, fleet.Conflict, code)
	}
	w.admit(deskVersion(2))
}

func publishNeedsAdmission(w *World) {
	w.standard()
	v := deskVersion(2)
	_, err := w.apply(registry.ChangeSet{Versions: []fleet.ConnectorVersion{v}})
	w.refused(err, fleet.NotAdmitted, "publish.admission")
	_, err = w.apply(registry.ChangeSet{Versions: []fleet.ConnectorVersion{v}, Admission: admissionOf(deskVersion(1))})
	w.refused(err, fleet.NotAdmitted, "publish.admission")
	old := deskVersion(2)
	old.Attestation.TrustRevision = 0
	_, err = w.apply(registry.ChangeSet{Versions: []fleet.ConnectorVersion{old}, Admission: admissionOf(old)})
	w.refused(err, fleet.NotAdmitted, "publish.trust_revision")
	forged := admissionOf(v)
	forged.Package = []byte("other bytes")
	_, err = w.apply(registry.ChangeSet{Versions: []fleet.ConnectorVersion{v}, Admission: forged})
	w.refused(err, fleet.Invalid, "publish.package_digest")
	w.publish(toggled(registry.ChangeSet{Types: []fleet.ConnectorType{deskType()}}, false, 0))
	_, err = w.apply(registry.ChangeSet{Versions: []fleet.ConnectorVersion{v}, Admission: admissionOf(v)})
	w.refused(err, fleet.NotAdmitted, "publish.type_disabled")
}

func publishUnqualified(w *World) {
	w.standard()
	v := deskVersion(2)
	v.Attestation.Qualified = false
	_, err := w.apply(registry.ChangeSet{Versions: []fleet.ConnectorVersion{v}, Admission: admissionOf(v)})
	w.refused(err, fleet.NotAdmitted, "publish.not_qualified")
	v.Status = fleet.VersionAdmitted
	w.admit(v)
	_, err = w.Publisher.Transition(w.ctx(), registry.VersionTransition{Version: v.ID, To: fleet.VersionActive, Actor: "suite", Reason: "test"})
	w.refused(err, fleet.NotAdmitted, "publish.not_qualified")
}

func publishPackage(w *World) {
	w.standard()
	a := admissionOf(deskVersion(1))
	got, err := w.Reader.Package(w.ctx(), a.PackageDigest)
	w.must(err, "package")
	w.expect(string(got) == string(a.Package), "the stored package has %d bytes", len(got))
	_, err = w.Reader.Package(w.ctx(), digest("none"))
	w.refused(err, fleet.NotFound, "")
	rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Admissions})
	w.must(err, "list admissions")
	w.expect(len(rec.Admissions) == 1 && rec.Admissions[0].State == "applied" && rec.Admissions[0].CatalogRevision == 2,
		"the journal holds %s", text(rec.Admissions))
}

func publishIncompatible(w *World) {
	w.standard()
	for what, edit := range map[string]func(*fleet.CapabilityDefinition){
		"required input": func(d *fleet.CapabilityDefinition) {
			d.InputSchema = json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"},"note":{"type":"string"}},"required":["title","note"]}`)
		},
		"output no longer promised": func(d *fleet.CapabilityDefinition) {
			d.OutputSchema = json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}}}`)
		},
		"more side effects":  func(d *fleet.CapabilityDefinition) { d.Contract.SideEffects = fleet.EffectDestructive },
		"no idempotency key": func(d *fleet.CapabilityDefinition) { d.Contract.Idempotency = fleet.IdempotencyNone },
	} {
		v := deskVersion(2)
		edit(&v.Manifest.Capabilities[0])
		_, err := w.apply(registry.ChangeSet{Versions: []fleet.ConnectorVersion{v}, Admission: admissionOf(v)})
		w.expect(fleet.Is(err, fleet.Conflict) && fleet.CodeOf(err) == "publish.incompatible", "%s: %v", what, err)
	}
}

// publishReplicaFixed alters each declared field in turn, found by reflection.
func publishReplicaFixed(w *World) {
	w.standard()
	w.admit(deskVersion(2))
	original := deskReplica(acme(), "a")
	n := 0
	walkLeaves(reflect.ValueOf(original), nil, func(path []int, name string) {
		if name == ".ID" || name == ".Capacity" {
			return
		}
		n++
		fresh := original
		leaf := reflect.ValueOf(&fresh).Elem()
		for _, i := range path {
			leaf = leaf.Field(i)
		}
		switch name {
		case ".Endpoint":
			fresh.Endpoint = "https://elsewhere.example"
		case ".Instance":
			fresh.Instance = instanceID(globex())
		case ".Version":
			fresh.Version = versionID(2)
		default:
			alter(leaf)
		}
		_, err := w.apply(registry.ChangeSet{Replicas: []fleet.Replica{fresh}})
		w.expect(fleet.Is(err, fleet.Conflict), "replica with another %s: %v", name, err)
	}, "")
	w.expect(n >= 11, "only %d fields were altered", n)
	w.expect(w.replica(original.ID).Replica == original, "the declaration became %+v", w.replica(original.ID).Replica)
}

func publishCapacity(w *World) {
	id := w.solo()
	for i := range 3 {
		w.resolve(fmt.Sprintf("n%d", i))
	}
	r := deskReplica(acme(), "a")
	r.Capacity = 2
	_, err := w.apply(registry.ChangeSet{Replicas: []fleet.Replica{r}})
	w.refused(err, fleet.Conflict, "publish.capacity")
	r.Capacity = 3
	w.publish(registry.ChangeSet{Replicas: []fleet.Replica{r}})
	_, err = w.try("n3")
	w.refused(err, fleet.ReplicaUnavailable, "")
	r.Capacity = 5
	w.publish(registry.ChangeSet{Replicas: []fleet.Replica{r}})
	w.resolve("n3")
	w.expect(w.replica(id).Live.Active == 4, "active is %d", w.replica(id).Live.Active)
}

func publishForeignInstance(w *World) {
	w.standard()
	b := deskBinding(acme(), read())
	b.Instance = instanceID(globex())
	_, foreign := w.apply(registry.ChangeSet{Bindings: []fleet.CapabilityBinding{b}})
	w.refused(foreign, fleet.Conflict, "publish.reference")
	b.Instance = parsed(fleet.ParseInstanceID("cinst_nobody"))
	_, unknown := w.apply(registry.ChangeSet{Bindings: []fleet.CapabilityBinding{b}})
	w.refused(unknown, fleet.Conflict, "publish.reference")
	w.expect(strings.ReplaceAll(foreign.Error(), "cinst_globex", "cinst_nobody") == unknown.Error(),
		"a foreign instance answers %q, an unknown one %q", foreign, unknown)
	i := deskInstance(acme())
	i.Tenant, i.ConfigRevision = globex(), 2
	_, err := w.apply(registry.ChangeSet{Instances: []fleet.ConnectorInstance{i}})
	w.refused(err, fleet.Conflict, "publish.identity")
}

func publishMustGrow(w *World) {
	w.standard()
	w.publish(registry.ChangeSet{Quotas: []fleet.QuotaPolicy{quota("tight", func(*fleet.QuotaPolicy) {})}})
	i, b := deskInstance(acme()), deskBinding(acme(), open())
	i.SecretProviderRef, b.Priority = "file:other", 1
	q := quota("tight", func(q *fleet.QuotaPolicy) { q.Tenant = limit(1) })
	for what, set := range map[string]registry.ChangeSet{
		"instance": {Instances: []fleet.ConnectorInstance{i}},
		"binding":  {Bindings: []fleet.CapabilityBinding{b}},
		"quota":    {Quotas: []fleet.QuotaPolicy{q}},
	} {
		_, err := w.apply(set)
		w.expect(fleet.CodeOf(err) == "publish.stale_revision", "%s changed under its old revision: %v", what, err)
	}
}

func publishReferences(w *World) {
	w.standard()
	i, r, b := deskInstance(acme()), deskReplica(acme(), "c"), deskBinding(acme(), read())
	i.ConfigRevision, i.Serving = 2, []fleet.ServingVersion{{Version: versionID(7), Weight: 1}}
	r.Version = versionID(7)
	b.PolicyRevision, b.QuotaPolicyRef = 2, "nowhere"
	for what, set := range map[string]registry.ChangeSet{
		"instance": {Instances: []fleet.ConnectorInstance{i}},
		"replica":  {Replicas: []fleet.Replica{r}},
		"binding":  {Bindings: []fleet.CapabilityBinding{b}},
	} {
		_, err := w.apply(set)
		w.expect(fleet.CodeOf(err) == "publish.reference", "%s with a reference to nothing: %v", what, err)
	}
	twice := deskBinding(globex(), read())
	_, err := w.apply(registry.ChangeSet{Bindings: []fleet.CapabilityBinding{twice, twice}})
	w.refused(err, fleet.Invalid, "publish.twice")
	_, err = w.Publisher.Apply(w.ctx(), registry.ChangeSet{Bindings: []fleet.CapabilityBinding{twice}}, w.revision())
	w.refused(err, fleet.Invalid, "publish.actor")
}

func publishTransitions(w *World) {
	w.standard()
	v := deskVersion(2)
	v.Status = fleet.VersionAdmitted
	w.admit(v)
	move := func(to fleet.VersionStatus) error {
		_, err := w.Publisher.Transition(w.ctx(), registry.VersionTransition{Version: v.ID, To: to, Actor: "suite", Reason: "test"})
		return err
	}
	type step struct {
		to fleet.VersionStatus
		ok bool
	}
	const a, d, q, r = fleet.VersionActive, fleet.VersionDeprecated, fleet.VersionQuarantined, fleet.VersionRevoked
	for n, s := range []step{
		{d, false}, {q, false}, {a, true}, {fleet.VersionAdmitted, false}, {q, true}, {d, false}, {a, true},
		{d, true}, {a, false}, {q, true}, {a, false}, {d, true}, {"gone", false}, {r, true}, {a, false}, {q, false}, {d, false},
	} {
		before, rev := w.version(v.ID).Status, w.revision()
		err := move(s.to)
		w.expect((err == nil) == s.ok, "step %d: %s to %s: %v", n, before, s.to, err)
		want := before
		if s.ok {
			want, rev = s.to, rev+1
		} else {
			w.expect(fleet.Is(err, fleet.Conflict), "step %d is refused with %v", n, err)
		}
		w.expect(w.version(v.ID).Status == want && w.revision() == rev, "step %d leaves %s at revision %d", n, w.version(v.ID).Status, w.revision())
	}
	w.must(move(r), "revoke again")
	_, err := w.Publisher.Transition(w.ctx(), registry.VersionTransition{Version: versionID(1), To: q, Actor: "suite"})
	w.refused(err, fleet.Invalid, "publish.reason")
	_, err = w.Publisher.Transition(w.ctx(), registry.VersionTransition{Version: versionID(9), To: q, Actor: "suite", Reason: "test"})
	w.refused(err, fleet.NotFound, "")
}

func publishDeprecated(w *World) {
	w.standard()
	w.admit(deskVersion(2))
	w.transition(versionID(1), fleet.VersionDeprecated)
	fresh := deskInstance(acme())
	fresh.ID = parsed(fleet.ParseInstanceID("cinst_acme2"))
	_, err := w.apply(registry.ChangeSet{Instances: []fleet.ConnectorInstance{fresh}})
	w.refused(err, fleet.NotAdmitted, "publish.version_status")
	i := deskInstance(acme())
	i.ConfigRevision = 2
	i.Serving = append(i.Serving, fleet.ServingVersion{Version: versionID(2), Weight: 1})
	w.publish(registry.ChangeSet{Instances: []fleet.ConnectorInstance{i}})
}

func publishLeasesApart(w *World) {
	w.standard()
	before := w.revision()
	id := replicaID(acme(), "a")
	w.beat(id)
	w.settle(w.resolve("one"), fleet.OutcomeCompleted)
	w.intend(id, fleet.IntentDrain)
	w.depart(id, true)
	w.register(id)
	w.advance(2 * leaseTTL)
	w.expire()
	w.expect(w.revision() == before, "the revision moved from %d to %d", before, w.revision())
}

func publishJournal(w *World) {
	w.standard()
	_, err := w.Publisher.Transition(w.ctx(), registry.VersionTransition{Version: versionID(1), To: fleet.VersionQuarantined, Actor: "ann", Reason: "odd answers"})
	w.must(err, "transition")
	w.intend(replicaID(acme(), "a"), fleet.IntentDrain)
	rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Events, Limit: 1000})
	w.must(err, "list events")
	kinds := map[string]registry.Event{}
	for i, e := range rec.Events {
		w.expect(i == 0 || e.Sequence < rec.Events[i-1].Sequence, "events are not newest first")
		if _, seen := kinds[e.Kind]; !seen {
			kinds[e.Kind] = e
		}
	}
	move := kinds["transition"]
	w.expect(move.Actor == "ann" && move.Reason == "odd answers" && move.Subject == versionID(1).String() && move.Revision == w.revision(),
		"the transition is journaled as %+v", move)
	for _, kind := range []string{"publication", "intent", "lease"} {
		w.expect(kinds[kind].Actor != "", "no event of kind %s names its actor", kind)
	}
}

func publishTrust(w *World) {
	w.standard()
	t := trustOne()
	_, err := w.apply(registry.ChangeSet{Trust: t})
	w.refused(err, fleet.Conflict, "publish.trust_number")
	t.Number = 3
	_, err = w.apply(registry.ChangeSet{Trust: t})
	w.refused(err, fleet.Conflict, "publish.trust_number")
	t.Number, t.Digest = 2, digest("other")
	_, err = w.apply(registry.ChangeSet{Trust: t})
	w.refused(err, fleet.Invalid, "publish.trust_digest")
	t.Digest = trustOne().Digest
	w.expect(w.publish(registry.ChangeSet{Trust: t}).Changed, "a new trust revision changed nothing")
	v := deskVersion(2)
	_, err = w.apply(registry.ChangeSet{Versions: []fleet.ConnectorVersion{v}, Admission: admissionOf(v)})
	w.refused(err, fleet.NotAdmitted, "publish.trust_revision")
}
