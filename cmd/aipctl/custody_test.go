package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/cmd/aipctl/apptest"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/registry"
)

// lostReplica finds the replica that the uncertain action is pinned to, and has its
// lease end.
func lostReplica(t *testing.T, h *apptest.Harness) registry.ReplicaRecord {
	t.Helper()
	route, err := h.Registry.Lookup(t.Context(), apptest.Tenant("acme"), apptest.Action("act_lost"))
	if err != nil {
		t.Fatal(err)
	}
	h.Offline(route.Route.Replica.String())
	if _, err := h.Registry.Expire(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	page, err := h.Registry.List(t.Context(), registry.Selection{Noun: registry.Replicas, IDs: []string{route.Route.Replica.String()}})
	if err != nil || len(page.Replicas) != 1 {
		t.Fatalf("%d replicas, %v", len(page.Replicas), err)
	}
	return page.Replicas[0]
}

// TestAccept_G25_AJournalThatWasRefused: nothing to accept before a host was refused;
// then a reason and a confirmation, and what is uncertain is named.
func TestAccept_G25_AJournalThatWasRefused(t *testing.T) {
	h := populated(t)
	r := lostReplica(t, h)
	id := r.ID.String()
	expect(t, h, 2, "usage.reason", "accept", "journal", id)
	expect(t, h, 3, "replica.not_found", "accept", "journal", "crepl_none", "--reason", "disk")
	expect(t, h, 5, "lease.journal_not_offered", "accept", "journal", id, "--reason", "disk", "--yes")
	v := apptest.Set().Versions[0]
	offer := registry.Registration{
		Claim: registry.RequestClaim{ID: "msg_again", Digest: fleet.DigestBytes([]byte("again"))}, Replica: r.ID, PeerDID: r.Peer.DID,
		ManifestDigest: v.ManifestDigest, ArtifactDigest: v.ArtifactDigest, Tenant: r.Tenant, ConfigRevision: 1, SecretProviderRef: "file:acme",
		CapabilityCount: len(v.Manifest.Capabilities), Capacity: r.Capacity, Journal: fleet.NewJournalID(h.Now()), TTL: time.Minute,
	}
	_, err := h.Registry.Register(t.Context(), offer)
	if fleet.CodeOf(err) != "lease.journal_changed" {
		t.Fatalf("another journal: %v", err)
	}
	expect(t, h, 0, "aipctl accept journal "+id, "describe", "replica", id)
	expect(t, h, 11, "confirm.needed", "accept", "journal", id, "--reason", "disk")
	var done struct {
		Journal   fleet.JournalID  `json:"journal_id"`
		Lost      fleet.JournalID  `json:"lost_journal_id"`
		Uncertain []fleet.ActionID `json:"uncertain"`
	}
	out := h.OK("accept", "journal", id, "--reason", "disk", "--yes", "-o", "json")
	if err := json.Unmarshal(h.Document(out).Item, &done); err != nil || done.Journal != offer.Journal || done.Lost != r.Live.Journal || len(done.Uncertain) == 0 {
		t.Errorf("accepted: %s (%v)", out, err)
	}
	offer.Claim = registry.RequestClaim{ID: "msg_third", Digest: fleet.DigestBytes([]byte("third"))}
	if _, err := h.Registry.Register(t.Context(), offer); err != nil {
		t.Errorf("after the acceptance: %v", err)
	}
	expect(t, h, 0, "act_lost", "reconcile", "list")
	expect(t, h, 0, "aipctl accept journal", "explain", "lease.journal_changed")
}

// TestRetire_G38_UnknownsStayTheOperators: only what is drained, by name and reason; its
// questions stay listed, no host is asked, and each can be decided.
func TestRetire_G38_UnknownsStayTheOperators(t *testing.T) {
	h := populated(t)
	line := func(id string) []string {
		return []string{"retire", "replica", id, "--reason", "gone", "--yes", "--confirm", id}
	}
	expect(t, h, 5, "lease.not_drained", line("crepl_acme_b")...)
	id := lostReplica(t, h).ID.String()
	expect(t, h, 2, "usage.reason", "retire", "replica", id)
	expect(t, h, 11, "confirm.needed", "retire", "replica", id, "--reason", "gone", "--yes")
	var done struct {
		Status     fleet.ReplicaStatus `json:"status"`
		HandedOver int                 `json:"handed_over"`
	}
	out := h.OK(append(line(id), "-o", "json")...)
	if err := json.Unmarshal(h.Document(out).Item, &done); err != nil || done.Status != fleet.ReplicaRetired || done.HandedOver == 0 {
		t.Errorf("retired: %s (%v)", out, err)
	}
	expect(t, h, 0, "act_lost", "reconcile", "list", "--state", "operator")
	expect(t, h, 5, "reconcile.retired", "reconcile", "probe", "act_lost")
	expect(t, h, 5, "lease.retired", "undrain", "replica", id, "--yes", "--confirm", id, "--reason", "back")
	expect(t, h, 0, "retired", "get", "replicas")
	h.OK("retire", "replica", id, "--reason", "again")
	evidence := h.File("evidence.txt", "the desk's log has no such ticket\n")
	all := func(id string, more ...string) []string {
		return append([]string{"reconcile", "resolve", "--replica", id, "--outcome", "did-not-happen", "--evidence", evidence, "--reason", "not in the log"}, more...)
	}
	expect(t, h, 5, "reconcile.not_retired", all("crepl_globex_a", "--yes", "--confirm", "crepl_globex_a")...)
	expect(t, h, 3, "replica.not_found", all("crepl_none", "--yes", "--confirm", "crepl_none")...)
	expect(t, h, 2, "usage.arguments", all(id, "act_lost")...)
	expect(t, h, 11, "confirm.needed", all(id, "--yes")...)
	decided := h.Document(h.OK(all(id, "--yes", "--confirm", id, "-o", "json")...))
	if len(decided.Items) != done.HandedOver {
		t.Errorf("%d decided of %d handed over", len(decided.Items), done.HandedOver)
	}
	expect(t, h, 0, "nothing is undecided there", all(id, "--yes", "--confirm", id)...)
	expect(t, h, 0, "nothing is uncertain", "reconcile", "list", "--state", "operator")
}
