package lease_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aipfleet/aipfleet/pkg/fleet"
	"github.com/aipfleet/aipfleet/pkg/lease"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func start() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }

func journal(name string) fleet.JournalID { return must(fleet.ParseJournalID("jrnl_" + name)) }

func declared() lease.Declared {
	return lease.Declared{
		Replica: fleet.Replica{ID: must(fleet.ParseReplicaID("crepl_a")), Peer: fleet.Peer{DID: "did:key:zA"}},
		Tenant:  must(fleet.ParseTenantID("acme")), ManifestDigest: fleet.DigestBytes([]byte("m")), ArtifactDigest: fleet.DigestBytes([]byte("a")),
		Capabilities: 2, ConfigRevision: 3, SecretProviderRef: "file:acme", VersionStatus: fleet.VersionActive, InstanceEnabled: true, TypeEnabled: true,
	}
}

func said() lease.Registration {
	d := declared()
	return lease.Registration{
		PeerDID: "did:key:zA", ManifestDigest: d.ManifestDigest, ArtifactDigest: d.ArtifactDigest, Tenant: d.Tenant, ConfigRevision: 3,
		SecretProviderRef: "file:acme", CapabilityCount: 2, Capacity: 4, Journal: journal("a"),
	}
}

func registered(t *testing.T) fleet.ReplicaLive {
	t.Helper()
	live, err := lease.Register(declared(), lease.Fresh(declared().Replica.ID), said(), start())
	if err != nil {
		t.Fatal(err)
	}
	return live
}

func TestRegister_G22_StartsAnEpoch(t *testing.T) {
	live := registered(t)
	want := fleet.ReplicaLive{
		ID: declared().Replica.ID, Status: fleet.ReplicaReady, Intent: fleet.IntentRun, Healthy: true, LeaseEpoch: 1, LeaseSequence: 1,
		LeaseExpiresAt: start().Add(lease.DefaultTTL), LastBeatAt: start(), Journal: journal("a"), Circuit: fleet.Circuit{State: fleet.CircuitClosed},
	}
	if live != want {
		t.Errorf("registered as %+v\nwant %+v", live, want)
	}
}

func TestRegister_G22_KeepsWhatIsNotOfTheEpoch(t *testing.T) {
	live := registered(t)
	live.Active, live.Circuit = 3, fleet.Circuit{State: fleet.CircuitOpen, Openings: 2}
	live.Intent = fleet.IntentDrain
	live.InFlight, live.NotReadyBeats, live.Healthy = 9, 2, false
	r := said()
	r.LastEpoch = 1
	again, err := lease.Register(declared(), live, r, start().Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if again.Active != 3 || again.Circuit != live.Circuit || again.Status != fleet.ReplicaDraining || again.LeaseEpoch != 2 || again.LeaseSequence != 1 {
		t.Errorf("registered as %+v", again)
	}
	if again.InFlight != 0 || again.NotReadyBeats != 0 || !again.Healthy {
		t.Errorf("the new epoch inherits %+v", again)
	}
}

func TestRegister_G08_AStartingHostIsNotHealthyBeforeItsFirstReadyBeat(t *testing.T) {
	r := said()
	r.Starting = true
	live, refusal := lease.Register(declared(), lease.Fresh(declared().Replica.ID), r, start())
	if refusal != nil || live.Healthy || live.Status != fleet.ReplicaReady || live.NotReadyBeats != lease.UnhealthyAfter {
		t.Fatalf("registered as %+v %v", live, refusal)
	}
	for n, ready := range []bool{false, false, true} {
		if live, refusal = lease.Renew(live, lease.Beat{Epoch: 1, Sequence: uint64(n + 2), Ready: ready}, start().Add(time.Second)); refusal != nil {
			t.Fatal(refusal)
		}
		if live.Healthy != ready {
			t.Errorf("after beat %d it is %+v", n, live)
		}
	}
	r.Starting, r.LastEpoch = false, 1
	if live, refusal = lease.Register(declared(), live, r, start().Add(2*time.Second)); refusal != nil || !live.Healthy {
		t.Errorf("back with its connector up: %+v %v", live, refusal)
	}
}

func TestRegister_G22_OnlyTheSameHostSupersedes(t *testing.T) {
	live := registered(t)
	for what, c := range map[string]struct {
		edit func(*lease.Registration)
		at   time.Duration
		ok   bool
	}{
		"same host":                 {func(r *lease.Registration) { r.LastEpoch = 1 }, 0, true},
		"same journal, other epoch": {func(r *lease.Registration) { r.LastEpoch = 0 }, 0, false},
		"other journal, same epoch": {func(r *lease.Registration) { r.LastEpoch, r.Journal = 1, journal("b") }, 0, false},
		"same, the lease just over": {func(*lease.Registration) {}, lease.DefaultTTL, true},
		"other, just before":        {func(r *lease.Registration) { r.Journal = journal("b") }, lease.DefaultTTL - 1, false},
	} {
		r := said()
		c.edit(&r)
		after, err := lease.Register(declared(), live, r, start().Add(c.at))
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
		if err != nil && (err.Code != "lease.held" || after != live) {
			t.Errorf("%s: refused with %s, state %+v", what, err.Code, after)
		}
	}
}

func TestRegister_G28_CoordinatesMustMatch(t *testing.T) {
	for code, edit := range map[string]func(*lease.Registration){
		"lease.peer":            func(r *lease.Registration) { r.PeerDID = "did:key:zB" },
		"lease.journal":         func(r *lease.Registration) { r.Journal = fleet.JournalID{} },
		"lease.capacity":        func(r *lease.Registration) { r.Capacity = 0 },
		"lease.tenant":          func(r *lease.Registration) { r.Tenant = must(fleet.ParseTenantID("globex")) },
		"lease.manifest":        func(r *lease.Registration) { r.ManifestDigest = fleet.Digest{} },
		"lease.artifact":        func(r *lease.Registration) { r.ArtifactDigest = fleet.Digest{} },
		"lease.capabilities":    func(r *lease.Registration) { r.CapabilityCount = 3 },
		"lease.secret_ref":      func(r *lease.Registration) { r.SecretProviderRef = "" },
		"lease.config_revision": func(r *lease.Registration) { r.ConfigRevision = 4 },
		"lease.ttl":             func(r *lease.Registration) { r.TTL = lease.MaxTTL + 1 },
	} {
		r := said()
		edit(&r)
		fresh := lease.Fresh(declared().Replica.ID)
		after, err := lease.Register(declared(), fresh, r, start())
		if err == nil || err.Code != code || after != fresh {
			t.Errorf("refused with %v, want %s; state %+v", err, code, after)
		}
	}
	nobody := declared()
	nobody.Replica.Peer.DID = ""
	if err := lease.Peer(nobody, ""); err == nil {
		t.Error("an empty signer matches an undeclared peer")
	}
}

func TestRenew_G22_ProlongsOrRefuses(t *testing.T) {
	live := registered(t)
	beat := func(epoch, sequence uint64) lease.Beat {
		return lease.Beat{Epoch: epoch, Sequence: sequence, Ready: true, InFlight: 2, TTL: time.Minute}
	}
	at := start().Add(10 * time.Second)
	after, err := lease.Renew(live, beat(1, 2), at)
	if err != nil || after.LeaseSequence != 2 || !after.LeaseExpiresAt.Equal(at.Add(time.Minute)) || after.InFlight != 2 || !after.LastBeatAt.Equal(at) {
		t.Fatalf("renewed as %+v, %v", after, err)
	}
	offline := lease.Offline(live, start())
	for what, c := range map[string]struct {
		live fleet.ReplicaLive
		beat lease.Beat
		at   time.Time
		code string
	}{
		"same sequence":  {after, beat(1, 2), at, "lease.sequence"},
		"older sequence": {after, beat(1, 1), at, "lease.sequence"},
		"epoch 0":        {after, beat(0, 9), at, "lease.epoch"},
		"older epoch":    {after, beat(2, 9), at, "lease.epoch"},
		"offline":        {offline, beat(1, 2), start(), "lease.offline"},
		"just over":      {live, beat(1, 2), live.LeaseExpiresAt, "lease.expired"},
		"bad time":       {live, lease.Beat{Epoch: 1, Sequence: 2, TTL: 1}, at, "lease.ttl"},
	} {
		got, err := lease.Renew(c.live, c.beat, c.at)
		if err == nil || err.Code != c.code || got != c.live {
			t.Errorf("%s: %v, want %s; state %+v", what, err, c.code, got)
		}
	}
	if _, err := lease.Renew(live, beat(1, 2), live.LeaseExpiresAt.Add(-1)); err != nil {
		t.Errorf("at the last instant: %v", err)
	}
}

// TestMachine_G23_OnlyListedTransitions drives random sequences and checks that no
// step makes a transition that is not listed, that epoch and sequence only grow, and
// that no beat makes a draining replica ready.
func TestMachine_G23_OnlyListedTransitions(t *testing.T) {
	type move struct {
		from, to fleet.ReplicaStatus
		by       string
	}
	const ready, draining, offline = fleet.ReplicaReady, fleet.ReplicaDraining, fleet.ReplicaOffline
	listed := map[move]bool{
		{offline, ready, "register"}: true, {offline, draining, "register"}: true,
		{ready, draining, "register"}: true, {draining, ready, "register"}: true, // the host itself came back
		{ready, draining, "beat"}: true, {ready, draining, "drain"}: true,
		{ready, offline, "leave"}: true, {draining, offline, "leave"}: true,
		{draining, ready, "run"}: true,
	}
	rapid.Check(t, func(t *rapid.T) {
		live, now := lease.Fresh(declared().Replica.ID), start()
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			before := live
			by := rapid.SampledFrom([]string{"register", "beat", "drain", "leave", "run", "want drain", "wait"}).Draw(t, "by")
			switch by {
			case "register":
				r := said()
				r.LastEpoch = live.LeaseEpoch
				live, _ = lease.Register(declared(), live, r, now)
			case "beat":
				live, _ = lease.Renew(live, lease.Beat{
					Epoch: live.LeaseEpoch, Sequence: live.LeaseSequence + 1, Ready: rapid.Bool().Draw(t, "ready"), Draining: rapid.Bool().Draw(t, "draining"),
				}, now)
			case "drain", "leave":
				live, _ = lease.Leave(live, live.LeaseEpoch, by == "leave", now)
			case "run":
				live, _ = lease.Intend(live, fleet.IntentRun)
			case "want drain":
				live, _ = lease.Intend(live, fleet.IntentDrain)
			case "wait":
				now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "s")) * time.Second)
			}
			if before.Status != live.Status && !listed[move{before.Status, live.Status, by}] {
				t.Fatalf("%s moved it from %s to %s", by, before.Status, live.Status)
			}
			newer := live.LeaseEpoch == before.LeaseEpoch+1 && live.LeaseSequence == 1
			if !newer && (live.LeaseEpoch != before.LeaseEpoch || live.LeaseSequence < before.LeaseSequence) {
				t.Fatalf("%s moved epoch and sequence from %d/%d to %d/%d", by, before.LeaseEpoch, before.LeaseSequence, live.LeaseEpoch, live.LeaseSequence)
			}
			if live.Status == offline && lease.Alive(live, now) {
				t.Fatal("an offline replica is alive")
			}
		}
	})
}

func TestRenew_G23_Health(t *testing.T) {
	live := registered(t)
	for n, ready := range []bool{false, false, true, false, false, false, false, true} {
		var err *fleet.Error
		live, err = lease.Renew(live, lease.Beat{Epoch: 1, Sequence: uint64(n + 2), Ready: ready}, start().Add(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if want := ready || live.NotReadyBeats < lease.UnhealthyAfter; live.Healthy != want {
			t.Errorf("after beat %d healthy is %v with %d unready beats", n, live.Healthy, live.NotReadyBeats)
		}
	}
	if live.NotReadyBeats != 0 || !live.Healthy {
		t.Errorf("a ready beat leaves %+v", live)
	}
}

func TestIntend_G23_UndrainWaitsForTheNextBeat(t *testing.T) {
	live := registered(t)
	live, _ = lease.Leave(live, 1, false, start())
	live, err := lease.Intend(live, fleet.IntentRun)
	if err != nil || live.Status != fleet.ReplicaReady || live.Healthy {
		t.Fatalf("undrained to %+v, %v: it must not be eligible before its host agrees", live, err)
	}
	still, _ := lease.Renew(live, lease.Beat{Epoch: 1, Sequence: 2, Ready: true, Draining: true}, start())
	if still.Status != fleet.ReplicaDraining {
		t.Errorf("a host that says draining is %s", still.Status)
	}
	back, _ := lease.Renew(live, lease.Beat{Epoch: 1, Sequence: 2, Ready: true}, start())
	if back.Status != fleet.ReplicaReady || !back.Healthy {
		t.Errorf("a host that is ready is %+v", back)
	}
	if _, err := lease.Intend(live, "stop"); err == nil {
		t.Error("a made-up intent was accepted")
	}
}

func TestIntent_G23_WhenTheHostIsToldToDrain(t *testing.T) {
	for what, edit := range map[string]func(*lease.Declared, *fleet.ReplicaLive){
		"operator": func(_ *lease.Declared, l *fleet.ReplicaLive) { l.Intent = fleet.IntentDrain },
		"revoked":  func(d *lease.Declared, _ *fleet.ReplicaLive) { d.VersionStatus = fleet.VersionRevoked },
		"instance": func(d *lease.Declared, _ *fleet.ReplicaLive) { d.InstanceEnabled = false },
		"type":     func(d *lease.Declared, _ *fleet.ReplicaLive) { d.TypeEnabled = false },
	} {
		d, live := declared(), registered(t)
		if lease.Intent(d, live) != fleet.IntentRun {
			t.Fatal("a fine replica is told to drain")
		}
		edit(&d, &live)
		if lease.Intent(d, live) != fleet.IntentDrain {
			t.Errorf("%s: it is not told to drain", what)
		}
	}
	d := declared()
	d.VersionStatus = fleet.VersionQuarantined
	if lease.Intent(d, registered(t)) != fleet.IntentRun {
		t.Error("a quarantined version's host is told to drain, though its pinned work may go on")
	}
}

func TestCurrent_G12_OnlyTheLivingEpoch(t *testing.T) {
	live := registered(t)
	for what, c := range map[string]struct {
		live  fleet.ReplicaLive
		epoch uint64
		at    time.Time
		want  bool
	}{
		"living":     {live, 1, start(), true},
		"superseded": {live, 0, start(), false},
		"future":     {live, 2, start(), false},
		"over":       {live, 1, live.LeaseExpiresAt, false},
		"offline":    {lease.Offline(live, start()), 1, start(), false},
	} {
		if got := lease.Current(c.live, c.epoch, c.at); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
	gone := lease.Offline(live, start().Add(time.Hour))
	if !gone.LeaseExpiresAt.Equal(live.LeaseExpiresAt) {
		t.Error("going offline after the end moved the end")
	}
}

func TestTTL_G22_Bounds(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		0: lease.DefaultTTL, lease.MinTTL: lease.MinTTL, lease.MaxTTL: lease.MaxTTL, lease.MinTTL - 1: -1, lease.MaxTTL + 1: -1, -1: -1,
	} {
		got, err := lease.TTL(ttl)
		if err != nil && want >= 0 || err == nil && got != want {
			t.Errorf("%s gives %s, %v", ttl, got, err)
		}
	}
}

// TestHeld_G24_EndsAMarginBeforeTheRegistry: whenever the host still trusts its
// lease, the registry, which counted from later, does so too.
func TestHeld_G24_EndsAMarginBeforeTheRegistry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := func(name string, lo, hi int) time.Duration {
			return time.Duration(rapid.IntRange(lo, hi).Draw(t, name)) * time.Millisecond
		}
		asked, ttl, margin := start(), ms("ttl", 1000, 300_000), ms("margin", 0, 10_000)
		registryRead := asked.Add(ms("travel", 0, 5000))
		h := lease.Hold(asked, ttl, margin)
		now := asked.Add(ms("now", 0, 400_000))
		if h.Trusted(now) && !registryRead.Add(ttl).Add(-margin).After(now) {
			t.Fatalf("the host trusts at %s, the registry's lease ends at %s", now, registryRead.Add(ttl))
		}
		if !h.Trusted(now) && now.Before(asked.Add(ttl-margin)) {
			t.Fatalf("the host gave up early")
		}
	})
}

func TestHeld_G24_NothingIsTrustedByDefault(t *testing.T) {
	var zero lease.Held
	for what, h := range map[string]lease.Held{
		"zero": zero, "no time": lease.Hold(time.Time{}, time.Minute, 0), "margin above": lease.Hold(start(), time.Second, time.Second),
		"negative margin": lease.Hold(start(), time.Second, -time.Hour), "negative": lease.Hold(start(), -1, 0),
	} {
		if h.Trusted(start()) || h.Trusted(time.Time{}) || !h.Until().IsZero() {
			t.Errorf("%s is trusted", what)
		}
	}
	h := lease.Hold(start(), time.Minute, time.Second)
	if !h.Trusted(start().Add(59*time.Second-1)) || h.Trusted(start().Add(59*time.Second)) || !h.Until().Equal(start().Add(59*time.Second)) {
		t.Errorf("it ends at %s", h.Until())
	}
}

// A wall clock that is set back must not prolong trust: the instant carries the
// monotonic reading, and Add keeps it.
func TestHeld_G24_CountsOnTheMonotonicClock(t *testing.T) {
	asked := time.Now()
	h := lease.Hold(asked, time.Minute, 0)
	later := asked.Add(2 * time.Minute)
	if h.Trusted(later) {
		t.Error("it is trusted past its end")
	}
	if asked.Round(0) == asked || h.Until().Round(0) == h.Until() {
		t.Error("the monotonic reading was lost")
	}
}

func TestRegister_G25_AnotherJournalNeedsAnOperator(t *testing.T) {
	live, at := registered(t), start().Add(lease.DefaultTTL)
	r := said()
	r.Journal = journal("b")
	after, err := lease.Register(declared(), live, r, at)
	if err == nil || err.Code != lease.CodeJournalChanged || after != live || !strings.Contains(err.Error()+err.Next, "aipctl accept journal crepl_a") {
		t.Fatalf("refused with %v (next %q), state %+v", err, err.Next, after)
	}
	live.OfferedJournal = r.Journal
	if _, err := lease.AcceptJournal(live, journal("c"), at); err == nil || err.Code != lease.CodeNotOffered {
		t.Errorf("a journal that nobody came with: %v", err)
	}
	if _, err := lease.AcceptJournal(live, r.Journal, start()); err == nil || err.Code != "lease.held" {
		t.Errorf("while the lease lives: %v", err)
	}
	accepted, err := lease.AcceptJournal(live, r.Journal, at)
	if err != nil || accepted.Journal != r.Journal || !accepted.OfferedJournal.IsZero() {
		t.Fatalf("accepted as %+v, %v", accepted, err)
	}
	if _, err := lease.Register(declared(), accepted, r, at); err != nil {
		t.Errorf("after the acceptance: %v", err)
	}
	if _, err := lease.Register(declared(), accepted, said(), at); err == nil || err.Code != lease.CodeJournalChanged {
		t.Errorf("the lost journal came back: %v", err)
	}
}

func TestRetire_G37_OnlyWhatHoldsNothing(t *testing.T) {
	live, after := registered(t), start().Add(lease.DefaultTTL)
	draining := live
	draining.Status, draining.Intent = fleet.ReplicaDraining, fleet.IntentDrain
	for what, c := range map[string]struct {
		live fleet.ReplicaLive
		edit func(*fleet.ReplicaLive)
		at   time.Time
		ok   bool
	}{
		"ready":                      {live, func(*fleet.ReplicaLive) {}, start(), false},
		"drained":                    {draining, func(*fleet.ReplicaLive) {}, start(), true},
		"draining by the host alone": {draining, func(l *fleet.ReplicaLive) { l.Intent = fleet.IntentRun }, start(), false},
		"draining, work assigned":    {draining, func(l *fleet.ReplicaLive) { l.Active = 1 }, start(), false},
		"draining, work in flight":   {draining, func(l *fleet.ReplicaLive) { l.InFlight = 1 }, start(), false},
		"lease over":                 {live, func(l *fleet.ReplicaLive) { l.InFlight = 3 }, after, true},
		"lease over, attempt open":   {live, func(l *fleet.ReplicaLive) { l.Active = 1 }, after, false},
		"retired already":            {live, func(l *fleet.ReplicaLive) { l.Status = fleet.ReplicaRetired }, start(), true},
		"offline, never had a lease": {lease.Fresh(live.ID), func(*fleet.ReplicaLive) {}, start(), true},
	} {
		c.edit(&c.live)
		got, err := lease.Retire(c.live, c.at)
		if (err == nil) != c.ok || err != nil && err.Code != lease.CodeNotDrained {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil && (got.Status != fleet.ReplicaRetired || lease.Alive(got, c.at) && what != "retired already") {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
