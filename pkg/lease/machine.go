package lease

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Bounds of a lease's time to live, and the default for a zero one.
const (
	MinTTL     = time.Second
	DefaultTTL = 30 * time.Second
	MaxTTL     = 300 * time.Second
)

// UnhealthyAfter is how many beats in a row without readiness make a replica unhealthy.
const UnhealthyAfter = 3

// Declared is what was published about a replica.
type Declared struct {
	Replica           fleet.Replica
	Tenant            fleet.TenantID // of the instance
	ManifestDigest    fleet.Digest   // of the version
	ArtifactDigest    fleet.Digest
	Capabilities      int // of the manifest
	ConfigRevision    uint64
	SecretProviderRef string
	VersionStatus     fleet.VersionStatus
	InstanceEnabled   bool
	TypeEnabled       bool
}

// Registration is what a host says of itself when it asks for a lease.
type Registration struct {
	PeerDID           string // verified signer
	ManifestDigest    fleet.Digest
	ArtifactDigest    fleet.Digest
	Tenant            fleet.TenantID
	ConfigRevision    uint64
	SecretProviderRef string
	CapabilityCount   int
	Capacity          uint32
	Journal           fleet.JournalID
	LastEpoch         uint64
	Starting          bool // its connector is not up yet
	TTL               time.Duration
}

// Beat is one renewal.
type Beat struct {
	Epoch    uint64
	Sequence uint64
	InFlight uint32
	Ready    bool
	Draining bool
	TTL      time.Duration
}

// Fresh is the live state of a replica that was declared and never registered.
func Fresh(id fleet.ReplicaID) fleet.ReplicaLive {
	return fleet.ReplicaLive{
		ID: id, Status: fleet.ReplicaOffline, Intent: fleet.IntentRun,
		Circuit: fleet.Circuit{State: fleet.CircuitClosed},
	}
}

// Alive reports whether the replica holds a lease at now.
func Alive(live fleet.ReplicaLive, now time.Time) bool {
	return live.Status != fleet.ReplicaOffline && live.Status != fleet.ReplicaRetired && live.LeaseExpiresAt.After(now)
}

// Current reports whether an attempt's lease epoch is the replica's living one.
// Otherwise the attempt is to be settled lease_expired.
func Current(live fleet.ReplicaLive, epoch uint64, now time.Time) bool {
	return live.LeaseEpoch == epoch && Alive(live, now)
}

// Intent is what a lease answer tells the host: the operator's own wish, or drain
// when nothing new may come to it any more: its version is revoked, its instance or
// type disabled.
func Intent(d Declared, live fleet.ReplicaLive) fleet.OperatorIntent {
	if live.Intent == fleet.IntentDrain || d.VersionStatus == fleet.VersionRevoked || !d.InstanceEnabled || !d.TypeEnabled {
		return fleet.IntentDrain
	}
	return fleet.IntentRun
}

// TTL checks a time to live; zero is the default.
func TTL(ttl time.Duration) (time.Duration, *fleet.Error) {
	if ttl == 0 {
		return DefaultTTL, nil
	}
	if ttl < MinTTL || ttl > MaxTTL {
		return 0, fleet.Invalidf("lease.ttl", "a lease of %s is outside %s..%s", ttl, MinTTL, MaxTTL)
	}
	return ttl, nil
}

// Peer refuses a signer that is not the declared one.
func Peer(d Declared, did string) *fleet.Error {
	if did == "" || did != d.Replica.Peer.DID {
		return fleet.Errorf(fleet.Denied, "lease.peer", "the signer is not the declared peer of replica %s", d.Replica.ID).
			Advise("sign with the key whose DID was published for this replica")
	}
	return nil
}

// Register starts a new epoch. A living lease is superseded only by the same host
// coming back: same journal, and it knows the epoch (G22). Another journal than the
// known one needs an operator, lease or not. A host that is starting counts as not
// healthy until its first beat that says that it is ready (G08).
func Register(d Declared, live fleet.ReplicaLive, r Registration, now time.Time) (fleet.ReplicaLive, *fleet.Error) {
	if err := Peer(d, r.PeerDID); err != nil {
		return live, err
	}
	ttl, err := TTL(r.TTL)
	if err != nil {
		return live, err
	}
	if err := coordinates(d, r); err != nil {
		return live, err
	}
	if live.Status == fleet.ReplicaRetired {
		return live, retired(d.Replica.ID)
	}
	if Alive(live, now) && (r.Journal != live.Journal || r.LastEpoch != live.LeaseEpoch) {
		return live, fleet.Errorf(fleet.Conflict, "lease.held", "replica %s holds a living lease", d.Replica.ID).
			Because("the journal or the last epoch given is not that of the lease").
			Advise("stop the other host, or wait for its lease to end")
	}
	if err := sameJournal(d, live, r); err != nil {
		return live, err
	}
	live.LeaseEpoch++
	live.LeaseSequence = 1
	live.Journal, live.OfferedJournal = r.Journal, fleet.JournalID{}
	live.Status = fleet.ReplicaReady
	if live.Intent == fleet.IntentDrain {
		live.Status = fleet.ReplicaDraining
	}
	live.Healthy, live.NotReadyBeats, live.InFlight = true, 0, 0
	if r.Starting {
		live.Healthy, live.NotReadyBeats = false, UnhealthyAfter
	}
	live.LastBeatAt, live.LeaseExpiresAt = now, now.Add(ttl)
	return live, nil
}

// Renew is one beat: it prolongs the lease and never makes a draining replica ready (G23).
func Renew(live fleet.ReplicaLive, b Beat, now time.Time) (fleet.ReplicaLive, *fleet.Error) {
	ttl, err := TTL(b.TTL)
	if err != nil {
		return live, err
	}
	if err := holds(live, b.Epoch, now); err != nil {
		return live, err
	}
	if b.Sequence <= live.LeaseSequence {
		return live, fleet.Errorf(fleet.LeaseLost, "lease.sequence", "beat %d of replica %s is not newer than %d", b.Sequence, live.ID, live.LeaseSequence)
	}
	live.LeaseSequence, live.InFlight = b.Sequence, b.InFlight
	live.LastBeatAt, live.LeaseExpiresAt = now, now.Add(ttl)
	if b.Draining || live.Intent == fleet.IntentDrain {
		live.Status = fleet.ReplicaDraining
	}
	if b.Ready {
		live.Healthy, live.NotReadyBeats = true, 0
	} else if live.NotReadyBeats++; live.NotReadyBeats >= UnhealthyAfter {
		live.Healthy = false
	}
	return live, nil
}

// Leave is the host's own drain, or its going offline. Draining keeps the lease.
func Leave(live fleet.ReplicaLive, epoch uint64, offline bool, now time.Time) (fleet.ReplicaLive, *fleet.Error) {
	if err := holds(live, epoch, now); err != nil {
		return live, err
	}
	if offline {
		return Offline(live, now), nil
	}
	live.Status = fleet.ReplicaDraining
	return live, nil
}

// Offline ends a lease, by the host's word or because its time is over.
func Offline(live fleet.ReplicaLive, now time.Time) fleet.ReplicaLive {
	live.Status, live.Healthy, live.InFlight = fleet.ReplicaOffline, false, 0
	if live.LeaseExpiresAt.After(now) {
		live.LeaseExpiresAt = now
	}
	return live
}

// Intend sets the operator's wish; a retired replica has none. Drain acts on routing at once, since intent is
// read in the same row; the status follows with the next beat. Run ends a drain: the
// replica counts as not healthy until its next beat says that it is ready.
func Intend(live fleet.ReplicaLive, want fleet.OperatorIntent) (fleet.ReplicaLive, *fleet.Error) {
	if live.Status == fleet.ReplicaRetired {
		return live, retired(live.ID)
	}
	switch want {
	case fleet.IntentDrain:
		live.Intent = want
	case fleet.IntentRun:
		live.Intent = want
		if live.Status == fleet.ReplicaDraining {
			live.Status, live.Healthy, live.NotReadyBeats = fleet.ReplicaReady, false, UnhealthyAfter
		}
	default:
		return live, fleet.Invalidf("lease.intent", "intent %q is not run or drain", fleet.Printable(string(want), 32))
	}
	return live, nil
}

// holds refuses an epoch that is superseded, offline or expired (G22).
func holds(live fleet.ReplicaLive, epoch uint64, now time.Time) *fleet.Error {
	lost := func(code, why string) *fleet.Error {
		return fleet.Errorf(fleet.LeaseLost, code, "epoch %d of replica %s is over", epoch, live.ID).
			Because("%s", why).Advise("register again")
	}
	switch {
	case epoch == 0 || epoch != live.LeaseEpoch:
		return lost("lease.epoch", "it is not the replica's epoch")
	case live.Status == fleet.ReplicaRetired:
		return lost(CodeRetired, "the replica is retired")
	case live.Status == fleet.ReplicaOffline:
		return lost("lease.offline", "the replica is offline")
	case !live.LeaseExpiresAt.After(now):
		return lost("lease.expired", "its time is over")
	}
	return nil
}
