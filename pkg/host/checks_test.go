package host_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aipfleet/aipfleet/pkg/connector"
	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/host"
	"github.com/aipfleet/aipfleet/pkg/lease"
	"github.com/aipfleet/aipfleet/pkg/lifecycle"
	"github.com/aipfleet/aipfleet/pkg/protocol"
)

// TestChecks_G40_EachNamesItself breaks one thing at a time and expects the one
// check that is about it; and after every not_started, the same attempt again, under
// another message, gets the same answer although nothing is broken any more (G41).
func TestChecks_G40_EachNamesItself(t *testing.T) {
	other := fleet.DigestBytes([]byte("other"))
	for _, c := range []struct {
		code   string
		http   int
		class  protocol.RefusalClass
		name   string
		mutate func(*rig, *ask)
		heal   func(*rig)
	}{
		{host.CodeMalformed, 400, protocol.ClassRefused, "document of another action", func(r *rig, a *ask) {
			a.doc = protocol.Action{ID: newAction(), Capability: a.route.Capability, Input: json.RawMessage(`{}`)}
		}, nil},
		{host.CodeMalformed, 400, protocol.ClassRefused, "no fence", func(_ *rig, a *ask) { a.route.Fence = fleet.Fence{} }, nil},
		{host.CodeRouteMismatch, 403, protocol.ClassRefused, "tenant", func(_ *rig, a *ask) { a.route.Tenant = must(fleet.ParseTenantID("globex")) }, nil},
		{host.CodeRouteMismatch, 403, protocol.ClassRefused, "instance", func(_ *rig, a *ask) { a.route.Instance = must(fleet.ParseInstanceID("cinst_b")) }, nil},
		{host.CodeRouteMismatch, 403, protocol.ClassRefused, "replica", func(_ *rig, a *ask) { a.route.Replica = must(fleet.ParseReplicaID("crepl_b")) }, nil},
		{host.CodeRouteMismatch, 403, protocol.ClassRefused, "version", func(_ *rig, a *ask) { a.route.Version = must(fleet.ParseVersionID("cver_b")) }, nil},
		{host.CodeRouteMismatch, 403, protocol.ClassRefused, "manifest", func(_ *rig, a *ask) { a.route.ManifestDigest = other }, nil},
		{host.CodeRouteMismatch, 403, protocol.ClassRefused, "artifact", func(_ *rig, a *ask) { a.route.ArtifactDigest = other }, nil},
		{host.CodeFenceLost, 409, protocol.ClassRefused, "epoch", func(_ *rig, a *ask) { a.route.LeaseEpoch = 6 }, nil},
		{host.CodeJournalGap, 409, protocol.ClassUnknown, "other journal", func(_ *rig, a *ask) { a.route.RegisteredJournal = fleet.NewJournalID(time.Now()) }, nil},
		{host.CodeJournalGap, 409, protocol.ClassUnknown, "earlier unknown", func(r *rig, a *ask) {
			a.route.Fence = fence(2)
			a.route.EarlierVerdicts = []fleet.AttemptEnd{{Fence: 1, Verdict: fleet.VerdictUnknown, Journal: r.cfg.Journal.ID()}}
		}, nil},
		{host.CodeNotReady, 503, protocol.ClassNotStarted, "lease over", func(r *rig, _ *ask) {
			r.lease.set(func(s *lifecycle.Standing) { s.Held = lease.Held{} })
		}, func(r *rig) {
			r.lease.set(func(s *lifecycle.Standing) { s.Held = lease.Hold(time.Now(), time.Hour, 0) })
		}},
		{host.CodeNotReady, 503, protocol.ClassNotStarted, "lease newer than known", func(r *rig, a *ask) { a.route.LeaseEpoch = 8 }, func(r *rig) {
			r.lease.set(func(s *lifecycle.Standing) { s.Epoch = 8 })
		}},
		{host.CodeNotReady, 503, protocol.ClassNotStarted, "connector down", func(r *rig, _ *ask) {
			r.product.set(func(c *counter) { c.health = errors.New("down") })
		}, func(r *rig) { r.product.set(func(c *counter) { c.health = nil }) }},
		{host.CodeDraining, 503, protocol.ClassNotStarted, "operator drains", func(r *rig, _ *ask) {
			r.lease.set(func(s *lifecycle.Standing) { s.Drain = true })
		}, func(r *rig) { r.lease.set(func(s *lifecycle.Standing) { s.Drain = false }) }},
		{host.CodeCredentialRevision, 403, protocol.ClassNotStarted, "credential", func(_ *rig, a *ask) { a.route.CredentialRevisionRef = "cred-0" }, func(*rig) {}},
		{host.CodeApproval, 403, protocol.ClassNotStarted, "approval", func(r *rig, a *ask) { a.capability("desk:approved") }, func(*rig) {}},
		{host.CodeContract, 422, protocol.ClassNotStarted, "input", func(_ *rig, a *ask) { a.input(`{"title":1}`) }, func(*rig) {}},
		{host.CodeContract, 422, protocol.ClassNotStarted, "capability", func(_ *rig, a *ask) { a.capability("desk:none") }, func(*rig) {}},
		{host.CodeContract, 422, protocol.ClassNotStarted, "deadline", func(_ *rig, a *ask) { a.route.Deadline = time.Now().Add(-time.Second).UTC() }, func(*rig) {}},
		{host.CodeContract, 422, protocol.ClassNotStarted, "transaction", func(_ *rig, a *ask) {
			doc := a.doc.(protocol.Action)
			doc.Transaction = json.RawMessage(`{"id":"txn_1"}`)
			a.doc = doc
		}, func(*rig) {}},
	} {
		t.Run(strings.TrimPrefix(c.code, "host.")+"/"+c.name, func(t *testing.T) {
			r := newRig(t)
			id := newAction()
			a := r.order(id, 1)
			c.mutate(r, &a)
			r.send(a).wantNo(t, c.code, c.http, c.class)
			r.wantCalls(id, 0)
			if c.heal == nil {
				return
			}
			c.heal(r)
			again := r.order(id, 1)
			again.route.LeaseEpoch = a.route.LeaseEpoch
			r.send(again).wantNo(t, c.code, c.http, protocol.ClassNotStarted)
			r.restart()
			again = r.order(id, 1)
			again.route.LeaseEpoch = a.route.LeaseEpoch
			r.send(again).wantNo(t, c.code, c.http, protocol.ClassNotStarted)
			r.wantCalls(id, 0)
			next := r.order(id, 2)
			next.route.LeaseEpoch = a.route.LeaseEpoch
			next.route.EarlierVerdicts = []fleet.AttemptEnd{{Fence: 1, Verdict: fleet.VerdictNotStarted, Journal: r.cfg.Journal.ID()}}
			r.send(next).wantResult(t, protocol.ResultCompleted)
			r.wantCalls(id, 1)
		})
	}
}

func (a *ask) capability(id string) {
	doc := a.doc.(protocol.Action)
	doc.Capability = must(fleet.ParseCapabilityID(id))
	a.doc, a.route.Capability = doc, doc.Capability
}

func (a *ask) input(text string) {
	doc := a.doc.(protocol.Action)
	doc.Input = json.RawMessage(text)
	a.doc = doc
}

func TestChecks_G40_SignatureRefusalsAreBoundToTheRefusedBytes(t *testing.T) {
	r := newRig(t)
	id := newAction()
	a := r.order(id, 1)
	r.gateway = signerOf(9) // not a key the host knows
	data := r.seal(a)
	got := r.post(data, a.id)
	got.wantNo(t, host.CodeSignature, 401, protocol.ClassRefused)
	if got.no.Message != fleet.DigestBytes(data) {
		t.Errorf("the refusal is not bound to the bytes: %s", got.bytes)
	}
	r.wantCalls(id, 0)
}

func TestChecks_G41_StaleMessageIsUnknown(t *testing.T) {
	early := func(c *host.Config) { c.Now = func() time.Time { return time.Now().Add(-time.Hour) } }
	r := newRig(t, early)
	a := r.order(newAction(), 1)
	data := r.seal(a)
	resp, err := http.Post(r.server.URL+protocol.PathMessages, protocol.ContentType, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var got struct {
		Body struct {
			Error protocol.Error `json:"error"`
		} `json:"body"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	no, ok := got.Body.Error.Refusal()
	if !ok || no.Code != host.CodeSignature || no.Class != protocol.ClassUnknown {
		t.Fatalf("a message outside its window must not count as not started: %+v", no)
	}
}

func TestChecks_G31_CapacityCountsExecutions(t *testing.T) {
	r := newRig(t, func(c *host.Config) { c.Capacity = 1 })
	hold, entered := make(chan struct{}), make(chan struct{})
	r.product.act = blocking(r.product, entered, hold)
	first, second := newAction(), newAction()
	answer := r.later(r.order(first, 1))
	<-entered
	r.send(r.order(second, 1)).wantNo(t, host.CodeCapacity, 429, protocol.ClassNotStarted)
	close(hold)
	(<-answer).wantResult(t, protocol.ResultCompleted)
	r.wantCalls(second, 0)
}

func TestChecks_G43_StatusAndCancelNeedNothing(t *testing.T) {
	r := newRig(t)
	done := newAction()
	r.send(r.order(done, 1)).wantResult(t, protocol.ResultCompleted)
	r.lease.set(func(s *lifecycle.Standing) { *s = lifecycle.Standing{Epoch: 99, Drain: true} })
	r.product.set(func(c *counter) { c.health = errors.New("down") })
	r.host.Drain()
	r.send(r.question(done, 1)).wantState(t, protocol.StateCompleted)
	r.send(r.question(newAction(), 1)).wantState(t, protocol.StateNotStarted)
	r.send(r.cancel(newAction(), 1)).wantState(t, protocol.StateCancelled)
}

func TestChecks_G09_DrainingTakesPinnedWork(t *testing.T) {
	r := newRig(t)
	r.product.set(func(c *counter) { c.health = errors.New("down") })
	pinned := newAction()
	r.send(r.order(pinned, 1)).wantNo(t, host.CodeNotReady, 503, protocol.ClassNotStarted)
	r.product.set(func(c *counter) { c.health = nil })
	r.host.Drain()
	r.send(r.order(newAction(), 1)).wantNo(t, host.CodeDraining, 503, protocol.ClassNotStarted)
	again := r.order(pinned, 2)
	again.route.EarlierVerdicts = []fleet.AttemptEnd{{Fence: 1, Verdict: fleet.VerdictNotStarted, Journal: r.cfg.Journal.ID()}}
	r.send(again).wantResult(t, protocol.ResultCompleted)
}

var _ connector.Connector = (*counter)(nil)
