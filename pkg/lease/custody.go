package lease

import (
	"time"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Codes of what an operator has to say about a replica, and of what is refused then.
const (
	CodeJournalChanged = "lease.journal_changed" // Conflict: a host came with another journal than the known one
	CodeNotOffered     = "lease.journal_not_offered"
	CodeNotDrained     = "lease.not_drained"
	CodeRetired        = "lease.retired"
)

// sameJournal refuses a host whose journal is not the one that the replica is known
// by: what the known one was the only witness of cannot be asked for any more (G25,
// G38). Only an operator can say that this is to be lived with.
func sameJournal(d Declared, live fleet.ReplicaLive, r Registration) *fleet.Error {
	if live.Journal.IsZero() || r.Journal == live.Journal {
		return nil
	}
	id := d.Replica.ID
	return fleet.Errorf(fleet.Conflict, CodeJournalChanged, "replica %s came back with another journal", id).
		Because("what it did is in journal %s, and this host has journal %s", live.Journal, r.Journal).
		Advise("put the old journal back, or have an operator accept the loss: aipctl accept journal %s --reason TEXT", id)
}

// AcceptJournal takes over the journal that a host was refused with. Nothing is known
// of what the old one knew; that is why the known journal is named by every attempt.
// Accepting what is known already changes nothing.
func AcceptJournal(live fleet.ReplicaLive, journal fleet.JournalID, now time.Time) (fleet.ReplicaLive, *fleet.Error) {
	switch {
	case journal.IsZero():
		return live, fleet.Invalidf(CodeNotOffered, "no journal is named")
	case live.Status == fleet.ReplicaRetired:
		return live, retired(live.ID)
	case live.Journal == journal:
		return live, nil
	case Alive(live, now):
		return live, fleet.Errorf(fleet.Conflict, "lease.held", "replica %s holds a living lease", live.ID).
			Because("its host has the known journal").
			Advise("stop that host first, if it is the wrong one")
	case live.OfferedJournal != journal:
		return live, fleet.Errorf(fleet.Conflict, CodeNotOffered, "no host of replica %s came with journal %s", live.ID, journal).
			Advise("aipctl describe replica %s", live.ID)
	}
	live.Journal, live.OfferedJournal = journal, fleet.JournalID{}
	return live, nil
}

// Retire ends an identity for ever: it never gets a lease again, and no work. It must
// hold nothing: no assignment, and no host that works or takes work. Retiring again
// changes nothing.
func Retire(live fleet.ReplicaLive, now time.Time) (fleet.ReplicaLive, *fleet.Error) {
	refused := func(why, next string) *fleet.Error {
		return fleet.Errorf(fleet.Conflict, CodeNotDrained, "replica %s is not drained", live.ID).Because("%s", why).Advise("%s", next)
	}
	drain := "aipctl drain replica " + live.ID.String()
	switch alive := Alive(live, now); {
	case live.Status == fleet.ReplicaRetired:
		return live, nil
	case alive && (live.Status != fleet.ReplicaDraining || live.Intent != fleet.IntentDrain):
		return live, refused("its host holds a lease and is not told to drain", drain)
	case live.Active > 0 && !alive:
		return live, refused("attempts are reserved on it that expiry has not settled yet", "wait a moment, and ask again")
	case live.Active > 0 || alive && live.InFlight > 0:
		return live, refused("work is in flight on it", drain)
	}
	live = Offline(live, now)
	live.Status, live.Intent, live.OfferedJournal = fleet.ReplicaRetired, fleet.IntentDrain, fleet.JournalID{}
	return live, nil
}

func retired(id fleet.ReplicaID) *fleet.Error {
	return fleet.Errorf(fleet.Conflict, CodeRetired, "replica %s is retired", id).
		Because("an operator ended this identity for ever").
		Advise("declare another replica, with an id and a key of its own")
}
