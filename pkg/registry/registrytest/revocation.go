package registrytest

import (
	"encoding/json"
	"fmt"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
	"github.com/aipfleet/aipfleet/pkg/routing"
)

func revocationCases() []Case {
	return []Case{
		{Name: "G33/list_revokes_what_it_names_in_one_revision", Why: "between a list and its effect, routes would still be made", Run: revocationNames},
		{Name: "G33/list_numbers_grow", Why: "an older list would bring back what was revoked", Run: revocationNumbers},
		{Name: "G33/admission_is_held_against_the_newest_list", Why: "a release judged before a list would slip in after it", Run: revocationAdmission},
		{Name: "G33/list_is_previewed_like_any_change", Why: "an operator must see what a list ends before it ends it", Run: revocationPreview},
		{Name: "G08/revoked_version_takes_no_new_route", Why: "the very reason for revoking", Run: revocationNewRoutes},
		{Name: "G12/revoked_with_reserved_actions", Why: "work that was handed out ends by itself, and none is handed out again", Run: revocationReserved},
		{Name: "G43/revoked_with_running_actions", Why: "the answer of running work is still the answer", Run: revocationRunning},
		{Name: "G43/revoked_with_unknown_actions", Why: "a revocation must not make anybody forget what may have happened", Run: revocationUnknown},
		{Name: "G23/revoked_version_tells_its_hosts_to_drain", Why: "a host that is not told keeps connections and credentials open", Run: revocationDrains},
		{Name: "G35/later_admission_supersedes", Why: "the journal says which decision is in force for a type", Run: revocationSupersedes},
		{Name: "G34/older_release_needs_an_approved_rollback", Why: "a replayed genuine release is an attack, an approved one a repair", Run: revocationRollback},
	}
}

// revocationList is list n, naming the given things.
func revocationList(n uint64, entries ...registry.RevocationEntry) *registry.RevocationList {
	doc := json.RawMessage(fmt.Sprintf(`{"list":%d}`, n))
	return &registry.RevocationList{
		Number: n, Digest: fleet.DigestBytes(doc), Document: doc, Entries: append([]registry.RevocationEntry{}, entries...),
		IssuedAt: Epoch(), Actor: "suite", Reason: "test",
	}
}

func named(kind registry.RevocationKind, value string) registry.RevocationEntry {
	return registry.RevocationEntry{Kind: kind, Value: value, Reason: "key lost"}
}

// revoke applies list 1, which names the desk's first release by its artifact.
func (w *World) revoke() registry.Publication {
	w.Helper()
	return w.publish(registry.ChangeSet{Revocation: revocationList(1, named(registry.RevokeArtifact, deskVersion(1).ArtifactDigest.String()))})
}

func revocationNames(w *World) {
	v := deskVersion(1)
	for what, entry := range map[string]registry.RevocationEntry{
		"package":  named(registry.RevokePackage, v.Attestation.PackageDigest.String()),
		"artifact": named(registry.RevokeArtifact, v.ArtifactDigest.String()),
		"manifest": named(registry.RevokeManifest, v.ManifestDigest.String()),
		"evidence": named(registry.RevokeEvidence, v.Attestation.Evidence["signature"].String()),
		"version":  named(registry.RevokeVersion, v.ID.String()),
		"signer":   named(registry.RevokeSigner, "key-1"),
	} {
		other := newWorld(w.TB, w.fresh(), w.options)
		other.standard()
		before := other.revision()
		p := other.publish(registry.ChangeSet{Revocation: revocationList(3, named(registry.RevokeSigner, "nobody"), entry)})
		other.expect(p.Changed && p.After == before+1 && other.revision() == before+1, "%s: the list is revision %d to %d", what, p.Before, p.After)
		other.expect(other.version(v.ID).Status == fleet.VersionRevoked, "%s: the version is %s", what, other.version(v.ID).Status)
		other.expect(len(p.Changes) == 2 && p.Changes[1].ID == v.ID.String(), "%s: the changes are %s", what, text(p.Changes))
		_, err := other.try("one")
		other.refused(err, fleet.BindingUnavailable, "")
		rec, err := other.Reader.List(other.ctx(), registry.Selection{Noun: registry.Revocations})
		other.must(err, "list")
		other.expect(len(rec.Revocations) == 1 && rec.Revocations[0].Number == 3 && len(rec.Revocations[0].Entries) == 2 && !rec.Revocations[0].AppliedAt.IsZero(),
			"%s: the list is kept as %s", what, text(rec.Revocations))
		rec, err = other.Reader.List(other.ctx(), registry.Selection{Noun: registry.Admissions})
		other.must(err, "list")
		other.expect(rec.Admissions[0].State == "revoked", "%s: the admission is %s", what, rec.Admissions[0].State)
		other.audit()
	}
}

func revocationNumbers(w *World) {
	w.standard()
	two := revocationList(2)
	w.publish(registry.ChangeSet{Revocation: two})
	again := w.publish(registry.ChangeSet{Revocation: two})
	w.expect(!again.Changed, "the same list again changed %s", text(again.Changes))
	for what, l := range map[string]*registry.RevocationList{"an older": revocationList(1), "another of the same number": revocationList(2, named(registry.RevokeSigner, "x"))} {
		if what != "an older" {
			l.Document = json.RawMessage(`{"list":"other"}`)
			l.Digest = fleet.DigestBytes(l.Document)
		}
		_, err := w.apply(registry.ChangeSet{Revocation: l})
		w.expect(fleet.CodeOf(err) == "publish.revocation_number", "%s list: %v", what, err)
	}
	wrong := revocationList(3)
	wrong.Digest = digest("other")
	_, err := w.apply(registry.ChangeSet{Revocation: wrong})
	w.refused(err, fleet.Invalid, "publish.revocation_digest")
	_, err = w.apply(registry.ChangeSet{Revocation: revocationList(3, registry.RevocationEntry{Kind: "colour", Value: "red", Reason: "r"})})
	w.refused(err, fleet.Invalid, "revocation.kind")
	nameless := revocationList(3)
	nameless.Reason = ""
	_, err = w.apply(registry.ChangeSet{Revocation: nameless})
	w.refused(err, fleet.Invalid, "publish.reason")
}

func revocationAdmission(w *World) {
	w.standard()
	w.publish(registry.ChangeSet{Revocation: revocationList(4, named(registry.RevokeArtifact, deskVersion(3).ArtifactDigest.String()))})
	v := deskVersion(2)
	_, err := w.apply(registry.ChangeSet{Versions: []fleet.ConnectorVersion{v}, Admission: admissionOf(v)})
	w.refused(err, fleet.NotAdmitted, "publish.revocation_list")
	under := func(v fleet.ConnectorVersion) *registry.Admission {
		a := admissionOf(v)
		a.RevocationList = 4
		return a
	}
	third := deskVersion(3)
	_, err = w.apply(registry.ChangeSet{Versions: []fleet.ConnectorVersion{third}, Admission: under(third)})
	w.refused(err, fleet.NotAdmitted, "publish.revoked")
	_, err = w.apply(registry.ChangeSet{Versions: []fleet.ConnectorVersion{v}, Admission: under(v), Revocation: revocationList(5)})
	w.refused(err, fleet.Invalid, "publish.revocation_alone")
	w.publish(registry.ChangeSet{Versions: []fleet.ConnectorVersion{v}, Admission: under(v)})
	rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Admissions, IDs: []string{v.ID.String()}})
	w.must(err, "list")
	w.expect(len(rec.Admissions) == 1 && rec.Admissions[0].RevocationList == 4, "the admission is %s", text(rec.Admissions))
}

func revocationPreview(w *World) {
	w.standard()
	set := registry.ChangeSet{Actor: "suite", Reason: "test", Revocation: revocationList(1, named(registry.RevokeSigner, "key-1"))}
	p, err := w.Publisher.Preview(w.ctx(), set)
	w.must(err, "preview")
	w.expect(p.Changed && len(p.Changes) == 2, "the preview says %s", text(p))
	w.expect(w.version(versionID(1)).Status == fleet.VersionActive, "a preview revoked")
	w.resolve("one")
}

func revocationNewRoutes(w *World) {
	w.standard()
	w.revoke()
	_, err := w.try("one")
	w.refused(err, fleet.BindingUnavailable, "")
	page, err := w.Catalog.Query(w.ctx(), acme(), registry.CatalogQuery{})
	w.must(err, "query")
	w.expect(len(page.Items) == 0, "the catalog still shows %s", text(page.Items))
	rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Events, State: "transition"})
	w.must(err, "events")
	e := rec.Events[0]
	w.expect(e.Subject == versionID(1).String() && e.Reason == "revocation list 1: key lost" && e.Revision == w.revision(), "the move is journaled as %+v", e)
}

// revocationReserved: the host has not begun. Its reservation stays as it is until it
// ends; once it has ended, nothing reserves the action again.
func revocationReserved(w *World) {
	w.standard()
	a := w.resolve("one")
	w.revoke()
	w.pinnedRefused("one", routing.VersionStatus)
	w.expect(!w.lookup("one").Current().Settled(), "the revocation released what the host may have begun")
	w.settleAs(a, fleet.Settlement{Outcome: fleet.OutcomeCancelled, Verdict: fleet.VerdictNotStarted})
	w.pinnedRefused("one", routing.VersionStatus)
}

// revocationRunning: the answer counts, success or failure, and the beat of the host
// goes on until it has ended its work.
func revocationRunning(w *World) {
	w.standard()
	a := w.resolve("one")
	w.revoke()
	l := w.beat(a.Route.Replica)
	w.expect(l.Intent == fleet.IntentDrain, "the running host is told %s", l.Intent)
	r := w.settleAs(a, fleet.Settlement{Outcome: fleet.OutcomeCompleted, EvidenceDigest: digest("answer")})
	w.expect(r.First && w.lookup("one").Current().Settlement.Outcome == fleet.OutcomeCompleted, "the running action settled as %s", text(r))
	w.expect(w.replica(a.Route.Replica).Live.Active == 0, "its capacity was not given back")
}

// revocationUnknown: the question stays open, can be probed and decided, and an
// action that did not happen is still not run again on the revoked version.
func revocationUnknown(w *World) {
	w.standard()
	lost, open := w.resolve("lost"), w.resolve("open")
	w.settle(lost, fleet.OutcomeUnknown)
	w.revoke()
	w.settle(open, fleet.OutcomeUnknown)
	due, err := w.Uncertain.Due(w.ctx(), 10, leaseTTL)
	w.must(err, "due")
	w.expect(len(due) == 2, "there are %d questions, want 2", len(due))
	for _, action := range []string{"lost", "open"} {
		_, err := w.Uncertain.Decide(w.ctx(), registry.ReconciliationKey{Action: actionID(action), Fence: 1}, registry.Decision{
			Resolution: fleet.ResolvedDidNotHappen, By: "ann", Evidence: digest("log"), Document: []byte("signed"),
		})
		w.must(err, "decide "+action)
		w.pinnedRefused(action, routing.VersionStatus)
	}
}

func revocationDrains(w *World) {
	w.standard()
	id := replicaID(acme(), "a")
	w.expect(w.beat(id).Intent == fleet.IntentRun, "a healthy host is told to drain")
	w.revoke()
	w.expect(w.beat(id).Intent == fleet.IntentDrain, "the host of a revoked version is not told to drain")
}

func revocationSupersedes(w *World) {
	w.standard()
	w.admit(deskVersion(2))
	rec, err := w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Admissions})
	w.must(err, "list")
	states := map[fleet.VersionID]string{}
	for _, a := range rec.Admissions {
		states[a.Version] = a.State
	}
	w.expect(states[versionID(1)] == "superseded" && states[versionID(2)] == "applied", "the admissions are %v", states)
	w.revoke()
	rec, err = w.Reader.List(w.ctx(), registry.Selection{Noun: registry.Admissions, IDs: []string{versionID(1).String()}})
	w.must(err, "list")
	w.expect(rec.Admissions[0].State == "revoked", "the superseded admission is %s after its revocation", rec.Admissions[0].State)
}

func revocationRollback(w *World) {
	w.standard()
	w.admit(deskVersion(5))
	older := deskVersion(3)
	_, err := w.apply(registry.ChangeSet{Versions: []fleet.ConnectorVersion{older}, Admission: admissionOf(older)})
	w.refused(err, fleet.Conflict, "publish.release_sequence")
	older.Attestation.RollbackFrom = 4
	_, err = w.apply(registry.ChangeSet{Versions: []fleet.ConnectorVersion{older}, Admission: admissionOf(older)})
	w.refused(err, fleet.Conflict, "publish.release_sequence")
	older.Attestation.RollbackFrom = 5
	w.publish(registry.ChangeSet{Versions: []fleet.ConnectorVersion{older}, Admission: admissionOf(older)})
	w.expect(w.version(older.ID).Attestation.RollbackFrom == 5, "the rollback is not kept")
}
